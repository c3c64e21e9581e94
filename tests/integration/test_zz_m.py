import time, json
from memforest_core.bootstrap.lifecycle import open_bundles
from memforest_core.bootstrap.verification import open_verification
from memforest_core.contexts.bundles.importing import Import
from memforest_core.contexts.bundles.proving import Proof
def timed(cls,name):
    f=getattr(cls,name)
    def g(self,*a):
        t=time.time(); r=f(self,*a); print(name,round(time.time()-t,2)); return r
    setattr(cls,name,g)
for n in ("_rows","_texts","_settle","_prove","_show"): timed(Import,n)
for n in ("reorder","broken","mend_summaries"): timed(Proof,n)
def test_m(pipeline,tmp_path):
    d=json.load(open("/work/shared/data/locomo-dev.json"))
    d=d[0] if isinstance(d,list) else list(d.values())[0]
    conv=d["conversation"]
    t=time.time(); n=0
    for k in sorted(x for x in conv if x.startswith("session_") and not x.endswith("date_time")):
        turns=[{"role":"user","name":u["speaker"],"content":u["text"] or "-","timestamp":1680000000+n*86400+i} for i,u in enumerate(conv[k])]
        n+=1
        pipeline.memory.ingest("bob",k,turns)
    pipeline.drive(500); print("ingest",n,time.time()-t)
    b=open_bundles(pipeline.services)
    t=time.time(); r=b.export(pipeline.tenant,"bob",tmp_path/"b.memforest",actor="x"); print("export",time.time()-t,r)
    for o,v in (("a",True),("c",False)):
        t=time.time(); r=b.import_(pipeline.tenant,tmp_path/"b.memforest",o,actor="x",vectors=v); print("import",o,time.time()-t,r["ids_kept"])
    t=time.time(); pipeline.drive(500); print("drive",time.time()-t)
    rep=open_verification(pipeline.services).run(pipeline.tenant); print("violations",rep.violations,[c for c in rep.checks if c.kinds])
