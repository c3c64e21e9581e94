-- The first schema: roles, tables, indexes, rights and row-level security. Later changes are migrations; this file does not
-- change. Functions and triggers, with their rights, are in store/functions: an upgrade installs them at its end.

DO $$
DECLARE
    missing text;
BEGIN
    FOREACH missing IN ARRAY ARRAY['memforest_service', 'memforest_limited'] LOOP
        IF to_regrole(missing) IS NULL THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', missing);
        END IF;
    END LOOP;
END $$;

-- Columns that may contain words or names have no statistics: ANALYZE copies samples of a column into the catalog, where
-- no deletion finds them. Vectors do not shrink by compression. Rows of work have room on their page for updates, and are
-- vacuumed early.

CREATE SEQUENCE memforest.point_version;

CREATE TABLE memforest.tenant (
    tenant_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    max_waiting_cells integer,
    max_turns_per_day integer,
    CONSTRAINT pk_tenant PRIMARY KEY (tenant_id)
);

CREATE TABLE memforest.forest (
    tenant_id text NOT NULL,
    forest_id uuid NOT NULL,
    owner text NOT NULL,
    time_zone text NOT NULL DEFAULT 'UTC',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reduce_available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reduce_failures smallint NOT NULL DEFAULT '0',
    scene_seq integer NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'live',
    rules jsonb NOT NULL DEFAULT '{}',
    display_name text,
    CONSTRAINT pk_forest PRIMARY KEY (tenant_id, forest_id),
    CONSTRAINT ck_forest_state CHECK (state IN ('live', 'frozen', 'hidden', 'gone'))
);
ALTER TABLE memforest.forest
    ALTER owner SET STATISTICS 0, ALTER rules SET STATISTICS 0, ALTER display_name SET STATISTICS 0;
CREATE UNIQUE INDEX ix_forest_owner ON memforest.forest (tenant_id, owner) WHERE state IN ('live', 'frozen');
CREATE INDEX ix_forest_unseen ON memforest.forest (tenant_id, owner) WHERE state IN ('hidden', 'gone');

CREATE TABLE memforest.session (
    tenant_id text NOT NULL,
    session_id uuid NOT NULL,
    forest_id uuid NOT NULL,
    external_id text NOT NULL,
    time_zone text NOT NULL,
    started_at timestamptz NOT NULL,
    turn_count integer NOT NULL DEFAULT 0,
    cell_count integer NOT NULL DEFAULT 0,
    lane smallint NOT NULL DEFAULT '0',
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    trace text,
    origin_owner text,
    note boolean NOT NULL DEFAULT false,
    channel text,
    pinned boolean NOT NULL DEFAULT false,
    CONSTRAINT pk_session PRIMARY KEY (tenant_id, session_id),
    CONSTRAINT uq_session_tenant_id_forest_id_external_id UNIQUE (tenant_id, forest_id, external_id),
    CONSTRAINT fk_session_forest FOREIGN KEY (tenant_id, forest_id) REFERENCES memforest.forest
);
ALTER TABLE memforest.session
    ALTER external_id SET STATISTICS 0, ALTER metadata SET STATISTICS 0, ALTER trace SET STATISTICS 0,
    ALTER origin_owner SET STATISTICS 0, ALTER channel SET STATISTICS 0;
CREATE INDEX ix_session_channel ON memforest.session (tenant_id, forest_id, channel) WHERE channel IS NOT NULL;
CREATE INDEX ix_session_pinned ON memforest.session (tenant_id, forest_id) WHERE pinned;
CREATE INDEX ix_session_updated ON memforest.session (tenant_id, updated_at);

CREATE TABLE memforest.turn (
    tenant_id text NOT NULL,
    session_id uuid NOT NULL,
    ordinal integer NOT NULL,
    external_id text NOT NULL,
    role text NOT NULL,
    content text NOT NULL,
    occurred_at timestamptz NOT NULL,
    dated boolean NOT NULL,
    speaker_id text NOT NULL,
    name text NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    erased boolean NOT NULL DEFAULT false,
    pinned boolean NOT NULL DEFAULT false,
    CONSTRAINT pk_turn PRIMARY KEY (tenant_id, session_id, ordinal),
    CONSTRAINT uq_turn_tenant_id_session_id_external_id UNIQUE (tenant_id, session_id, external_id),
    CONSTRAINT fk_turn_session FOREIGN KEY (tenant_id, session_id) REFERENCES memforest.session
);
ALTER TABLE memforest.turn
    ALTER external_id SET STATISTICS 0, ALTER content SET STATISTICS 0, ALTER speaker_id SET STATISTICS 0,
    ALTER name SET STATISTICS 0, ALTER metadata SET STATISTICS 0;
CREATE INDEX ix_turn_pinned ON memforest.turn (tenant_id, session_id, ordinal) WHERE pinned;

CREATE TABLE memforest.speaker (
    tenant_id text NOT NULL,
    forest_id uuid NOT NULL,
    speaker_id text NOT NULL,
    name text NOT NULL,
    since timestamptz,
    CONSTRAINT pk_speaker PRIMARY KEY (tenant_id, forest_id, speaker_id, name)
);
ALTER TABLE memforest.speaker ALTER speaker_id SET STATISTICS 0, ALTER name SET STATISTICS 0;

CREATE TABLE memforest.cell (
    tenant_id text NOT NULL,
    cell_id uuid NOT NULL,
    forest_id uuid NOT NULL,
    session_id uuid NOT NULL,
    ordinal integer NOT NULL,
    window_ordinal integer NOT NULL,
    first_turn integer NOT NULL,
    last_turn integer NOT NULL,
    char_start integer,
    char_end integer,
    text text NOT NULL,
    text_hash bytea NOT NULL,
    time_start timestamptz NOT NULL,
    time_end timestamptz NOT NULL,
    placed boolean NOT NULL DEFAULT false,
    outcome text,
    summary text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    extracted_at timestamptz,
    placed_at timestamptz,
    state text NOT NULL DEFAULT 'ready',
    lane smallint NOT NULL DEFAULT '0',
    attempts smallint NOT NULL DEFAULT '0',
    lost_leases smallint NOT NULL DEFAULT '0',
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token uuid,
    lease_until timestamptz,
    worker_id uuid,
    error_code text,
    error_text text,
    retry_at timestamptz,
    agains smallint NOT NULL DEFAULT '0',
    CONSTRAINT pk_cell PRIMARY KEY (tenant_id, cell_id),
    CONSTRAINT uq_cell_tenant_id_session_id_ordinal UNIQUE (tenant_id, session_id, ordinal),
    CONSTRAINT ck_cell_state CHECK (state IN ('held', 'ready', 'running', 'done', 'dead')),
    CONSTRAINT fk_cell_session FOREIGN KEY (tenant_id, session_id) REFERENCES memforest.session
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE memforest.cell
    ALTER text SET STATISTICS 0, ALTER summary SET STATISTICS 0, ALTER error_text SET STATISTICS 0;
CREATE INDEX ix_cell_retry ON memforest.cell (tenant_id, retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX ix_cell_claim ON memforest.cell (tenant_id, lane, available_at)
    WHERE state = 'ready' AND ordinal = window_ordinal;
CREATE INDEX ix_cell_dead ON memforest.cell (tenant_id) WHERE state = 'dead';
CREATE INDEX ix_cell_forest ON memforest.cell (tenant_id, forest_id, text_hash);
CREATE INDEX ix_cell_held ON memforest.cell (tenant_id, available_at) WHERE state = 'held';
CREATE INDEX ix_cell_lease ON memforest.cell (lease_until) WHERE state = 'running';
CREATE INDEX ix_cell_live ON memforest.cell (tenant_id, forest_id, available_at)
    WHERE state = 'ready' AND ordinal = window_ordinal AND lane = 0;
CREATE INDEX ix_cell_reduce ON memforest.cell (tenant_id, forest_id, session_id, ordinal)
    WHERE state = 'done' AND NOT placed;
CREATE INDEX ix_cell_reduce_lane ON memforest.cell (tenant_id, lane, extracted_at) WHERE state = 'done' AND NOT placed;
CREATE INDEX ix_cell_time ON memforest.cell (tenant_id, forest_id, time_end, time_start);

CREATE TABLE memforest.candidate (
    tenant_id text NOT NULL,
    cell_id uuid NOT NULL,
    item smallint NOT NULL,
    turn_ordinals bigint[] NOT NULL,
    quote text NOT NULL,
    statement jsonb NOT NULL,
    text_hash bytea NOT NULL,
    routing_hash bytea NOT NULL,
    CONSTRAINT pk_candidate PRIMARY KEY (tenant_id, cell_id, item),
    CONSTRAINT fk_candidate_cell FOREIGN KEY (tenant_id, cell_id) REFERENCES memforest.cell
);
ALTER TABLE memforest.candidate ALTER quote SET STATISTICS 0, ALTER statement SET STATISTICS 0;
CREATE INDEX ix_candidate_routing_hash ON memforest.candidate (tenant_id, routing_hash);
CREATE INDEX ix_candidate_text_hash ON memforest.candidate (tenant_id, text_hash);

CREATE TABLE memforest.fact (
    tenant_id text NOT NULL,
    fact_id uuid NOT NULL,
    forest_id uuid NOT NULL,
    seq bigint GENERATED BY DEFAULT AS IDENTITY,
    text text NOT NULL,
    normalized text NOT NULL,
    text_hash bytea NOT NULL,
    time_start timestamptz,
    time_end timestamptz,
    mentioned_at timestamptz NOT NULL,
    subject_key text NOT NULL,
    attribute text NOT NULL,
    statement jsonb NOT NULL,
    key_time bigint NOT NULL,
    key_ordinal integer NOT NULL,
    key_item integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    pinned boolean NOT NULL DEFAULT false,
    superseded_by uuid,
    superseded_at timestamptz,
    CONSTRAINT pk_fact PRIMARY KEY (tenant_id, fact_id),
    CONSTRAINT fk_fact_forest FOREIGN KEY (tenant_id, forest_id) REFERENCES memforest.forest
);
ALTER TABLE memforest.fact
    ALTER text SET STATISTICS 0, ALTER normalized SET STATISTICS 0, ALTER subject_key SET STATISTICS 0,
    ALTER attribute SET STATISTICS 0, ALTER statement SET STATISTICS 0;
CREATE INDEX ix_fact_chain ON memforest.fact (tenant_id, forest_id, subject_key, attribute, key_time)
    WHERE attribute <> '';
CREATE INDEX ix_fact_pinned ON memforest.fact (tenant_id, forest_id) WHERE pinned;
CREATE INDEX ix_fact_seq ON memforest.fact (tenant_id, forest_id, seq);
CREATE INDEX ix_fact_superseded ON memforest.fact (tenant_id, superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX ix_fact_text_hash ON memforest.fact (tenant_id, forest_id, text_hash);
CREATE INDEX ix_fact_wrong ON memforest.fact (tenant_id, fact_id) WHERE superseded_at IS NOT NULL;

CREATE TABLE memforest.occurrence (
    tenant_id text NOT NULL,
    cell_id uuid NOT NULL,
    item smallint NOT NULL,
    fact_id uuid NOT NULL,
    session_id uuid NOT NULL,
    turn_ordinals bigint[] NOT NULL,
    CONSTRAINT pk_occurrence PRIMARY KEY (tenant_id, cell_id, item),
    CONSTRAINT fk_occurrence_candidate
        FOREIGN KEY (tenant_id, cell_id, item) REFERENCES memforest.candidate ON UPDATE CASCADE,
    CONSTRAINT fk_occurrence_fact FOREIGN KEY (tenant_id, fact_id) REFERENCES memforest.fact
);
CREATE INDEX ix_occurrence_fact ON memforest.occurrence (tenant_id, fact_id);

CREATE TABLE memforest.tree (
    tenant_id text NOT NULL,
    tree_id uuid NOT NULL,
    forest_id uuid NOT NULL,
    kind text NOT NULL,
    scope_key text NOT NULL,
    label text NOT NULL,
    state text NOT NULL,
    k smallint NOT NULL,
    root_id uuid,
    height smallint NOT NULL DEFAULT '0',
    leaf_count integer NOT NULL DEFAULT 0,
    session_id uuid,
    domain text NOT NULL DEFAULT '',
    centroid bytea,
    time_start timestamptz,
    time_end timestamptz,
    marks bigint NOT NULL DEFAULT '0',
    first_mark_at timestamptz,
    last_mark_at timestamptz,
    due_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    title text,
    tags text,
    cold_at timestamptz,
    title_size integer,
    title_source text,
    CONSTRAINT pk_tree PRIMARY KEY (tenant_id, tree_id),
    CONSTRAINT uq_tree_tenant_id_forest_id_kind_scope_key UNIQUE (tenant_id, forest_id, kind, scope_key),
    CONSTRAINT fk_tree_forest FOREIGN KEY (tenant_id, forest_id) REFERENCES memforest.forest
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05, fillfactor = 50);
ALTER TABLE memforest.tree
    ALTER scope_key SET STATISTICS 0, ALTER label SET STATISTICS 0, ALTER domain SET STATISTICS 0,
    ALTER centroid SET STATISTICS 0, ALTER title SET STATISTICS 0, ALTER tags SET STATISTICS 0,
    ALTER title_source SET STATISTICS 0;
CREATE INDEX ix_tree_due ON memforest.tree (tenant_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_tree_topic ON memforest.tree (tenant_id, forest_id, time_end, tree_id)
    WHERE kind = 'scene' AND state = 'active';

CREATE TABLE memforest.placement (
    tenant_id text NOT NULL,
    tree_id uuid NOT NULL,
    payload_id uuid NOT NULL,
    session_id uuid NOT NULL,
    leaf_id uuid,
    CONSTRAINT pk_placement PRIMARY KEY (tenant_id, tree_id, payload_id),
    CONSTRAINT fk_placement_tree FOREIGN KEY (tenant_id, tree_id) REFERENCES memforest.tree
) WITH (fillfactor = 90);
CREATE INDEX ix_placement_payload ON memforest.placement (tenant_id, payload_id);

CREATE TABLE memforest.node (
    tenant_id text NOT NULL,
    node_id uuid NOT NULL,
    tree_id uuid NOT NULL,
    parent_id uuid,
    level smallint NOT NULL,
    key_time bigint NOT NULL,
    key_ordinal integer NOT NULL,
    key_item integer NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    time_start bigint,
    time_end bigint,
    leaf_count integer NOT NULL,
    version bigint NOT NULL,
    clean_version bigint NOT NULL,
    erased_version bigint NOT NULL DEFAULT '0',
    payload_id uuid,
    attempts smallint NOT NULL DEFAULT '0',
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token uuid,
    lease_until timestamptz,
    worker_id uuid,
    lost_leases smallint NOT NULL DEFAULT '0',
    dead boolean NOT NULL DEFAULT false,
    error_code text,
    error_text text,
    state text NOT NULL GENERATED ALWAYS AS (
        CASE
            WHEN dead THEN 'dead'
            WHEN lease_token IS NOT NULL THEN 'running'
            WHEN version > clean_version THEN 'ready'
            ELSE 'done'
        END
    ) STORED,
    CONSTRAINT pk_node PRIMARY KEY (tenant_id, node_id),
    CONSTRAINT ck_node_clean CHECK (clean_version <= version),
    CONSTRAINT fk_node_tree FOREIGN KEY (tenant_id, tree_id) REFERENCES memforest.tree
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE memforest.node ALTER error_text SET STATISTICS 0;
CREATE INDEX ix_node_dead ON memforest.node (tenant_id) WHERE dead;
CREATE INDEX ix_node_dirty ON memforest.node (tenant_id, tree_id, level) WHERE version > clean_version;
CREATE INDEX ix_node_order ON memforest.node (tenant_id, tree_id, level, key_time, key_ordinal, key_item, key_id);
CREATE INDEX ix_node_parent ON memforest.node (tenant_id, parent_id);
CREATE INDEX ix_node_payload ON memforest.node (tenant_id, payload_id) WHERE payload_id IS NOT NULL;

CREATE TABLE memforest.node_summary (
    tenant_id text NOT NULL,
    node_id uuid NOT NULL,
    text text NOT NULL,
    source text NOT NULL,
    model text NOT NULL,
    input_hash bytea NOT NULL,
    version bigint NOT NULL,
    vector bytea NOT NULL,
    vector_model text NOT NULL,
    pooled bytea,
    terms bytea NOT NULL,
    redo_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pk_node_summary PRIMARY KEY (tenant_id, node_id),
    CONSTRAINT fk_node_summary_node FOREIGN KEY (tenant_id, node_id) REFERENCES memforest.node ON DELETE CASCADE
);
ALTER TABLE memforest.node_summary
    ALTER text SET STATISTICS 0, ALTER vector SET STORAGE MAIN, ALTER vector SET STATISTICS 0,
    ALTER pooled SET STORAGE MAIN, ALTER pooled SET STATISTICS 0, ALTER terms SET STATISTICS 0;
CREATE INDEX ix_node_summary_redo ON memforest.node_summary (tenant_id, redo_at) WHERE redo_at IS NOT NULL;

CREATE TABLE memforest.api_key (
    tenant_id text NOT NULL,
    key_id uuid NOT NULL,
    secret_hash bytea NOT NULL,
    name text NOT NULL,
    scope text NOT NULL,
    owners text,
    requests_per_minute integer,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at timestamptz,
    last_used_at timestamptz,
    expires_at timestamptz,
    CONSTRAINT pk_api_key PRIMARY KEY (tenant_id, key_id),
    CONSTRAINT uq_api_key_secret_hash UNIQUE (secret_hash),
    CONSTRAINT ck_api_key_scope CHECK (scope IN ('read', 'write', 'admin'))
);
ALTER TABLE memforest.api_key
    ALTER secret_hash SET STATISTICS 0, ALTER name SET STATISTICS 0, ALTER scope SET STATISTICS 0,
    ALTER owners SET STATISTICS 0;

CREATE TABLE memforest.audit (
    tenant_id text NOT NULL,
    audit_id bigint GENERATED BY DEFAULT AS IDENTITY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL,
    action text NOT NULL,
    outcome text NOT NULL,
    forest_id uuid,
    owner_hash bytea,
    task_id uuid,
    detail jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT pk_audit PRIMARY KEY (tenant_id, audit_id)
);
ALTER TABLE memforest.audit ALTER actor SET STATISTICS 0, ALTER detail SET STATISTICS 0;
CREATE INDEX ix_audit_forest ON memforest.audit (tenant_id, forest_id, at);
CREATE INDEX ix_audit_owner_hash ON memforest.audit (tenant_id, owner_hash, at);

CREATE TABLE memforest.calendar_digest (
    tenant_id text NOT NULL,
    forest_id uuid NOT NULL,
    span text NOT NULL,
    first_day date NOT NULL,
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    texts jsonb NOT NULL,
    sources jsonb NOT NULL,
    turns integer NOT NULL,
    left_out integer NOT NULL,
    source text NOT NULL,
    model text NOT NULL,
    input_hash bytea NOT NULL,
    version uuid NOT NULL,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pk_calendar_digest PRIMARY KEY (tenant_id, forest_id, span, first_day),
    CONSTRAINT ck_calendar_digest_ck_calendar_digest_span CHECK (span IN ('day', 'week', 'month', 'year', 'life')),
    CONSTRAINT fk_calendar_digest_forest
        FOREIGN KEY (tenant_id, forest_id) REFERENCES memforest.forest ON DELETE CASCADE
);
ALTER TABLE memforest.calendar_digest
    ALTER span SET STATISTICS 0, ALTER texts SET STATISTICS 0, ALTER sources SET STATISTICS 0;

CREATE TABLE memforest.collection (
    name text NOT NULL,
    model text NOT NULL,
    dimension integer NOT NULL,
    live boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    generation uuid,
    store_started text,
    CONSTRAINT pk_collection PRIMARY KEY (name)
);
ALTER TABLE memforest.collection ALTER name SET STATISTICS 0, ALTER store_started SET STATISTICS 0;

CREATE TABLE memforest.extraction_cache (
    tenant_id text NOT NULL,
    input_hash bytea NOT NULL,
    answer jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    forest_id uuid,
    session_id uuid,
    CONSTRAINT pk_extraction_cache PRIMARY KEY (tenant_id, input_hash)
);
ALTER TABLE memforest.extraction_cache ALTER answer SET STATISTICS 0;
CREATE INDEX ix_extraction_cache_forest ON memforest.extraction_cache (tenant_id, forest_id);
CREATE INDEX ix_extraction_cache_session ON memforest.extraction_cache (tenant_id, session_id);

CREATE TABLE memforest.index_row (
    tenant_id text NOT NULL,
    point_id uuid NOT NULL,
    forest_id uuid NOT NULL,
    kind text NOT NULL,
    version bigint NOT NULL DEFAULT nextval('memforest.point_version'),
    indexed_version bigint NOT NULL DEFAULT '0',
    deleted boolean NOT NULL DEFAULT false,
    state text NOT NULL DEFAULT 'ready',
    lane smallint NOT NULL DEFAULT '0',
    attempts smallint NOT NULL DEFAULT '0',
    lost_leases smallint NOT NULL DEFAULT '0',
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token uuid,
    lease_until timestamptz,
    worker_id uuid,
    error_code text,
    error_text text,
    erased_version bigint NOT NULL DEFAULT '0',
    cold boolean NOT NULL DEFAULT false,
    CONSTRAINT pk_index_row PRIMARY KEY (tenant_id, point_id),
    CONSTRAINT ck_index_row_state CHECK (state IN ('held', 'ready', 'running', 'done', 'dead'))
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05, fillfactor = 50);
ALTER TABLE memforest.index_row ALTER error_text SET STATISTICS 0;
CREATE INDEX ix_index_row_behind ON memforest.index_row (tenant_id, kind, lane, available_at)
    WHERE indexed_version < version;
CREATE INDEX ix_index_row_cold ON memforest.index_row (tenant_id, forest_id, kind) WHERE cold;
CREATE INDEX ix_index_row_erased ON memforest.index_row (tenant_id, forest_id) WHERE erased_version > 0;
CREATE INDEX ix_index_row_forest ON memforest.index_row (tenant_id, forest_id);
CREATE INDEX ix_index_row_unseen ON memforest.index_row (tenant_id, forest_id, kind) WHERE indexed_version = 0;

CREATE TABLE memforest.llm_call (
    tenant_id text NOT NULL,
    call_id bigint GENERATED BY DEFAULT AS IDENTITY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    step text NOT NULL,
    model text NOT NULL,
    forest_id uuid,
    session_id uuid,
    prompt_tokens integer NOT NULL,
    completion_tokens integer NOT NULL,
    cached_tokens integer NOT NULL,
    cost_usd double precision NOT NULL,
    latency_ms double precision NOT NULL,
    outcome text NOT NULL,
    CONSTRAINT pk_llm_call PRIMARY KEY (tenant_id, call_id)
);
CREATE INDEX ix_llm_call_at ON memforest.llm_call (tenant_id, at);
CREATE INDEX ix_llm_call_session ON memforest.llm_call (tenant_id, session_id);

CREATE TABLE memforest.maintenance (
    tenant_id text NOT NULL,
    task_id uuid NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL DEFAULT '',
    arguments jsonb NOT NULL DEFAULT '{}',
    progress jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    state text NOT NULL DEFAULT 'ready',
    lane smallint NOT NULL DEFAULT '0',
    attempts smallint NOT NULL DEFAULT '0',
    lost_leases smallint NOT NULL DEFAULT '0',
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token uuid,
    lease_until timestamptz,
    worker_id uuid,
    error_code text,
    error_text text,
    forest_id uuid,
    actor text NOT NULL DEFAULT '',
    sequence bigint GENERATED BY DEFAULT AS IDENTITY,
    cancelled_by text,
    CONSTRAINT pk_maintenance PRIMARY KEY (tenant_id, task_id),
    CONSTRAINT ck_maintenance_ck_maintenance_state CHECK (state IN ('held', 'ready', 'running', 'done', 'dead'))
);
ALTER TABLE memforest.maintenance
    ALTER subject SET STATISTICS 0, ALTER arguments SET STATISTICS 0, ALTER progress SET STATISTICS 0,
    ALTER error_text SET STATISTICS 0, ALTER actor SET STATISTICS 0, ALTER cancelled_by SET STATISTICS 0;
CREATE INDEX ix_maintenance_claim ON memforest.maintenance (tenant_id, available_at) WHERE state = 'ready';
CREATE INDEX ix_maintenance_dead ON memforest.maintenance (tenant_id) WHERE state = 'dead';
CREATE INDEX ix_maintenance_forest ON memforest.maintenance (tenant_id, forest_id);
CREATE INDEX ix_maintenance_lease ON memforest.maintenance (lease_until) WHERE state = 'running';
CREATE UNIQUE INDEX ix_maintenance_once ON memforest.maintenance (tenant_id, kind, subject)
    WHERE state IN ('held', 'ready', 'running');

CREATE TABLE memforest.maintenance_forest (
    tenant_id text NOT NULL,
    task_id uuid NOT NULL,
    forest_id uuid NOT NULL,
    role text NOT NULL,
    CONSTRAINT pk_maintenance_forest PRIMARY KEY (tenant_id, task_id, forest_id),
    CONSTRAINT fk_maintenance_forest_maintenance
        FOREIGN KEY (tenant_id, task_id) REFERENCES memforest.maintenance ON DELETE CASCADE
);
CREATE INDEX ix_maintenance_forest_forest_id ON memforest.maintenance_forest (tenant_id, forest_id);

CREATE TABLE memforest.migration (
    revision text NOT NULL,
    follows text,
    compatible boolean NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pk_migration PRIMARY KEY (revision)
);

CREATE TABLE memforest.retention_policy (
    tenant_id text NOT NULL,
    forest_id uuid NOT NULL,
    max_age_s bigint,
    max_facts integer,
    max_bytes bigint,
    fraction double precision NOT NULL DEFAULT '0.1',
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    facts_max_age_s bigint,
    digests_max_age_s bigint,
    window_max_age_s bigint,
    first_out text NOT NULL DEFAULT 'age',
    CONSTRAINT pk_retention_policy PRIMARY KEY (tenant_id, forest_id),
    CONSTRAINT ck_retention_policy_ck_retention_policy_fraction CHECK (fraction > 0 AND fraction <= 1),
    CONSTRAINT ck_retention_policy_first_out CHECK (first_out IN ('age', 'visits'))
);
ALTER TABLE memforest.retention_policy ALTER first_out SET STATISTICS 0;

CREATE TABLE memforest.running_session (
    tenant_id text NOT NULL,
    forest_id uuid NOT NULL,
    external_id text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pk_running_session PRIMARY KEY (tenant_id, forest_id),
    CONSTRAINT fk_running_session_forest
        FOREIGN KEY (tenant_id, forest_id) REFERENCES memforest.forest ON DELETE CASCADE
);
ALTER TABLE memforest.running_session ALTER external_id SET STATISTICS 0;

CREATE TABLE memforest.session_window (
    tenant_id text NOT NULL,
    session_id uuid NOT NULL,
    forest_id uuid NOT NULL,
    turns integer NOT NULL,
    text text NOT NULL,
    source text NOT NULL,
    model text NOT NULL,
    input_hash bytea NOT NULL,
    version uuid NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pk_session_window PRIMARY KEY (tenant_id, session_id),
    CONSTRAINT fk_session_window_session
        FOREIGN KEY (tenant_id, session_id) REFERENCES memforest.session ON DELETE CASCADE
);
ALTER TABLE memforest.session_window ALTER text SET STATISTICS 0;
CREATE INDEX ix_session_window_forest ON memforest.session_window (tenant_id, forest_id);

CREATE TABLE memforest.summary_cache (
    tenant_id text NOT NULL,
    input_hash bytea NOT NULL,
    text text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    forest_id uuid,
    tree_id uuid,
    CONSTRAINT pk_summary_cache PRIMARY KEY (tenant_id, input_hash)
);
ALTER TABLE memforest.summary_cache ALTER text SET STATISTICS 0;
CREATE INDEX ix_summary_cache_forest ON memforest.summary_cache (tenant_id, forest_id);
CREATE INDEX ix_summary_cache_tree ON memforest.summary_cache (tenant_id, tree_id);

CREATE TABLE memforest.tenant_role (
    role text NOT NULL,
    tenant text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pk_tenant_role PRIMARY KEY (role, tenant)
);

CREATE TABLE memforest.vector (
    tenant_id text NOT NULL,
    forest_id uuid NOT NULL,
    model text NOT NULL,
    text_hash bytea NOT NULL,
    vector bytea NOT NULL,
    tokens bytea,
    CONSTRAINT pk_vector PRIMARY KEY (tenant_id, forest_id, model, text_hash),
    CONSTRAINT fk_vector_forest FOREIGN KEY (tenant_id, forest_id) REFERENCES memforest.forest
);
ALTER TABLE memforest.vector
    ALTER vector SET STORAGE MAIN, ALTER vector SET STATISTICS 0, ALTER tokens SET STORAGE EXTERNAL,
    ALTER tokens SET STATISTICS 0;

CREATE TABLE memforest.visit (
    tenant_id text NOT NULL,
    item_id uuid NOT NULL,
    forest_id uuid NOT NULL,
    visits integer NOT NULL DEFAULT 1,
    last_visit_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pk_visit PRIMARY KEY (tenant_id, item_id)
);
CREATE INDEX ix_visit_forest ON memforest.visit (tenant_id, forest_id);

CREATE TABLE memforest.webhook_endpoint (
    tenant_id text NOT NULL,
    endpoint_id uuid NOT NULL,
    url text NOT NULL,
    events text[] NOT NULL,
    description text NOT NULL DEFAULT '',
    secret text NOT NULL,
    former_secret text,
    former_until timestamptz,
    enabled boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pk_webhook_endpoint PRIMARY KEY (tenant_id, endpoint_id)
);
ALTER TABLE memforest.webhook_endpoint
    ALTER url SET STATISTICS 0, ALTER events SET STATISTICS 0, ALTER description SET STATISTICS 0,
    ALTER secret SET STATISTICS 0, ALTER former_secret SET STATISTICS 0;

CREATE TABLE memforest.webhook_delivery (
    tenant_id text NOT NULL,
    delivery_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    event text NOT NULL,
    data jsonb NOT NULL,
    forest_id uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    status smallint,
    state text NOT NULL DEFAULT 'ready',
    lane smallint NOT NULL DEFAULT '0',
    attempts smallint NOT NULL DEFAULT '0',
    lost_leases smallint NOT NULL DEFAULT '0',
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_token uuid,
    lease_until timestamptz,
    worker_id uuid,
    error_code text,
    error_text text,
    CONSTRAINT pk_webhook_delivery PRIMARY KEY (tenant_id, delivery_id),
    CONSTRAINT ck_webhook_delivery_state CHECK (state IN ('held', 'ready', 'running', 'done', 'dead')),
    CONSTRAINT fk_webhook_delivery_webhook_endpoint
        FOREIGN KEY (tenant_id, endpoint_id) REFERENCES memforest.webhook_endpoint ON DELETE CASCADE
);
ALTER TABLE memforest.webhook_delivery
    ALTER event SET STATISTICS 0, ALTER data SET STATISTICS 0, ALTER error_text SET STATISTICS 0;
CREATE INDEX ix_webhook_delivery_due ON memforest.webhook_delivery (tenant_id, available_at)
    WHERE state IN ('held', 'ready');
CREATE INDEX ix_webhook_delivery_endpoint
    ON memforest.webhook_delivery (tenant_id, endpoint_id, created_at, delivery_id);
CREATE INDEX ix_webhook_delivery_forest ON memforest.webhook_delivery (tenant_id, forest_id)
    WHERE forest_id IS NOT NULL;
CREATE INDEX ix_webhook_delivery_lease ON memforest.webhook_delivery (lease_until) WHERE state = 'running';
CREATE INDEX ix_webhook_delivery_newest ON memforest.webhook_delivery (tenant_id, created_at, delivery_id);
CREATE INDEX ix_webhook_delivery_past ON memforest.webhook_delivery (tenant_id, available_at)
    WHERE state IN ('done', 'dead');

CREATE TABLE memforest.window_item (
    tenant_id text NOT NULL,
    session_id uuid NOT NULL,
    item_id uuid NOT NULL,
    forest_id uuid NOT NULL,
    place bigint NOT NULL,
    fact_id uuid,
    said_in uuid,
    ordinal integer,
    put_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT pk_window_item PRIMARY KEY (tenant_id, session_id, item_id),
    CONSTRAINT ck_window_item_ck_window_item_one
        CHECK (((fact_id IS NULL) <> (said_in IS NULL)) AND ((said_in IS NULL) = (ordinal IS NULL))),
    CONSTRAINT fk_window_item_fact FOREIGN KEY (tenant_id, fact_id) REFERENCES memforest.fact ON DELETE CASCADE,
    CONSTRAINT fk_window_item_session
        FOREIGN KEY (tenant_id, session_id) REFERENCES memforest.session ON DELETE CASCADE
);
CREATE INDEX ix_window_item_fact ON memforest.window_item (tenant_id, fact_id) WHERE fact_id IS NOT NULL;
CREATE INDEX ix_window_item_forest ON memforest.window_item (tenant_id, forest_id);
CREATE INDEX ix_window_item_turn ON memforest.window_item (tenant_id, said_in, ordinal) WHERE said_in IS NOT NULL;

CREATE TABLE memforest.worker (
    worker_id uuid NOT NULL,
    name text NOT NULL,
    queues text[] NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    connections integer NOT NULL DEFAULT 0,
    version text NOT NULL DEFAULT '',
    CONSTRAINT pk_worker PRIMARY KEY (worker_id)
);
ALTER TABLE memforest.worker ALTER name SET STATISTICS 0, ALTER queues SET STATISTICS 0, ALTER version SET STATISTICS 0;

-- The policies below need the function; the one of store/functions replaces it.
CREATE FUNCTION memforest.granted_tenants()
RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = memforest, pg_temp AS $$ SELECT '{}'::text[] $$;

GRANT USAGE ON SCHEMA memforest TO memforest_service, memforest_limited;
GRANT USAGE ON SEQUENCE memforest.point_version TO memforest_service, memforest_limited;
GRANT USAGE ON SEQUENCE memforest.audit_audit_id_seq, memforest.fact_seq_seq, memforest.llm_call_call_id_seq
    TO memforest_service;
GRANT SELECT, INSERT, UPDATE, DELETE ON memforest.collection, memforest.worker TO memforest_service;
GRANT SELECT ON memforest.migration, memforest.schema_version TO memforest_service;
GRANT SELECT ON memforest.collection, memforest.worker, memforest.migration, memforest.schema_version
    TO memforest_limited;

-- Each table with a tenant: a transaction sees one tenant's rows; the owner too, unless a setting that only the owner's
-- policy reads lifts that; a role of single tenants sees those that it was granted. The array of tenants is made once for
-- each statement, so that the tenant is still found by the index.
DO $$
DECLARE
    place text;
BEGIN
    FOR place IN
        SELECT a.attrelid::regclass FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
         WHERE c.relnamespace = 'memforest'::regnamespace AND c.relkind = 'r' AND a.attname = 'tenant_id'
         ORDER BY c.relname
    LOOP
        EXECUTE format('GRANT %s ON %s TO memforest_service, memforest_limited',
            CASE place WHEN 'memforest.audit' THEN 'SELECT, INSERT' ELSE 'SELECT, INSERT, UPDATE, DELETE' END, place);
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', place);
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', place);
        EXECUTE format('CREATE POLICY tenant_isolation ON %s'
            ' USING (tenant_id = current_setting(''memforest.tenant'', true))'
            ' WITH CHECK (tenant_id = current_setting(''memforest.tenant'', true))', place);
        EXECUTE format('CREATE POLICY across_tenants ON %s TO CURRENT_USER'
            ' USING (current_setting(''memforest.across'', true) = ''on'')', place);
        EXECUTE format('CREATE POLICY granted_tenants ON %s AS RESTRICTIVE TO memforest_limited'
            ' USING (tenant_id = ANY(CAST((SELECT memforest.granted_tenants()) AS text[])))', place);
    END LOOP;
    -- To vacuum after a deletion; before version 17 only owners can.
    IF current_setting('server_version_num')::int >= 170000 THEN
        GRANT MAINTAIN ON ALL TABLES IN SCHEMA memforest TO memforest_service;
    END IF;
END $$;
