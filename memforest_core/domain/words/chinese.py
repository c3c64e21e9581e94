"""The words of Chinese, in simplified and traditional signs."""

from __future__ import annotations

import re

from memforest_core.domain.words.records import (
    NEVER,
    Attribute,
    FollowUpWords,
    NowWords,
    OrderWords,
    SeriesWords,
    Wording,
    WordList,
    Words,
)

_PETS = """
    狗 猫 貓 兔 鸟 鳥 鱼 魚 龟 龜 小狗 狗狗 小猫 猫咪 兔子 仓鼠 倉鼠 鹦鹉 鸚鵡 乌龟 烏龜
    金鱼 金魚 刺猬 马 馬
"""
_PET = "|".join(_PETS.split())
_OCCUPATIONS = """
    老师 老師 教师 教師 医生 醫生 护士 護士 律师 律師 厨师 廚師 司机 司機 记者 記者 会计 會計
    经理 經理 服务 服務 店员 店員 工程 程序 编程 设计 設計 翻译 翻譯 编辑 編輯 警察 农民 農民
    裁缝 木匠 木工 电工 電工 理发 理髮 园丁 園丁 秘书 秘書 实习 實習 学徒 學徒 顾问 顧問 建筑
    建築 兽医 獸醫 画家 畫家 作家 导游 導遊 飞行 飛行 演员 演員
"""
_RELATIVES = (
    "妈妈|媽媽|母亲|母親|爸爸|父亲|父親|父母|姐姐|妹妹|哥哥|弟弟|姐|妹|哥|弟|妻子|老婆|太太|丈夫|老公|男朋友|女朋友|男友|女友"
    "|儿子|兒子|女儿|女兒|孩子|奶奶|爷爷|爺爺|外婆|外公|姑姑|姨妈|阿姨|叔叔|舅舅|表[哥弟姐妹]|堂[哥弟姐妹]|室友|老板|老闆|同事"
    "|邻居|鄰居|朋友"
)
_CLAUSE = "[^，。？！；、,?!;]"
_DAY_PART = "星期.?|周.|周末|早上|晚上|下午|上午"
_STILL = rf"还(?:在|是|有|住|养|用|吃)?{_CLAUSE}*[吗嗎]|還{_CLAUSE}*嗎|仍然?|依然|依旧"
_NOW = rf"现在|現在|目前|如今|当前|當前|眼下|今天|这(?:段|阵)(?:时间|子)|{_STILL}"
_BEFORE = "之前|以前|(?<![面目从從提空])前(?![天面任台夫妻男女辈后後])"
_AFTER = "之后|之後|以后|以後|(?<![最然今背前])[后後](?![来來天面边邊悔果院代])"

_ORDER = OrderWords(
    sides=(re.compile(rf"(?P<rest>{_CLAUSE}*?)(?P<word>{_BEFORE}|{_AFTER})"),),
    after=("之后", "之後", "以后", "以後", "后", "後"),
    between=re.compile(
        rf"在?(?P<one>{_CLAUSE}+?)(?:和|与|與|跟|到)(?P<other>{_CLAUSE}+?)之[间間](?!的?(?:区别|不同|差别|关系|距离|區別|差別|關係|距離))"
    ),
    duration=re.compile(
        rf"(?:多久|多长时间|多長時間|几(?:年|个月|天|周)(?!前|之前|以前))(?!之?前)(?P<rest>{_CLAUSE}*)"
    ),
    before_words=re.compile(
        "以前|之前|从前|從前|过去(?!的?(?:一|几|两|三))|過去|原来|原來|原先|前(?:任|男友|女友|夫|妻)|曾|不再"
    ),
    after_words=re.compile("后来|後來|之后|之後|以后|以後|随后|隨後|接着|接著|然后|然後"),
    first_words=re.compile("最初|最早|起初|一开始|一開始|刚开始|剛開始|第一(?:个|個|份|次|只|隻|家|任|处)|首次|首先"),
    latest_words=re.compile(rf"最近|最新|最后(?:一)?|最後(?:一)?|{_NOW}"),
    habit=re.compile(
        r"(?:我|他|她)?(?:睡觉|睡覺|吃饭|吃飯|早餐|午餐|晚餐|早饭|午饭|晚饭|上班|下班|上课|放学|中午|半夜|不久|很久|今|日)?"
    ),
    dated=re.compile(
        rf"(?:我|他|她)?(?:在?(?:[\d一二两三四五六七八九十几半]+(?:个|個)?(?:小时|分钟|天|日|周|星期|月|年|號|号)+)+(?:多|份)?|{_DAY_PART}"
        "|春天|夏天|秋天|冬天|春节|圣诞节|新年)"
    ),
    back=re.compile(r"(?:在?(?:这|那|此|這)(?:个|個)?|[我你您他她它](?:们|們)?)"),
    clause_end=NEVER,
)

_NOW_WORDS = NowWords(
    now=re.compile(_NOW),
    still=re.compile(_STILL),
    not_now=re.compile(
        "[住养養做开開]过|[住养養做开開]過|曾|当时|當時|那时|那時|将来|將來|[会會](?!员|计|议|員|計|議)|打算|计划[要去]|计划在|到现在|直到"
    ),
    plain=tuple(
        (attribute, re.compile(pattern))
        for attribute, pattern in (
            (
                "residence",
                r"住(?:在)?(?:哪|什么(?:地方|城市)|什麼(?:地方|城市))|在哪(?:里|儿|裡|个城市)?(?:居住|住)(?!过)",
            ),
            (
                "job",
                r"做(?:的)?(?:是)?(?:什么|什麼)(?:工作|的)|(?:什么|什麼)(?:工作|职业|職業)|从事什么"
                r"|在哪(?:里|儿|裡|家公司)?(?:上班|工作)|是干什么的",
            ),
            (
                "relationship",
                rf"(?:结婚|結婚|离婚|離婚|单身|單身|订婚|訂婚|恋爱|戀愛){_CLAUSE}*(?:吗|嗎|没|沒)|[男女]朋友是[谁誰]|[跟和][谁誰](?:在一起|交往)",
            ),
            (
                "pet",
                rf"[养養有](?:着|了)?(?:几[只条]|什么|什麼)(?:宠物|寵物|动物|動物|{_PET})|[养養有](?:宠物|寵物|{_PET})[吗嗎]",
            ),
            ("possession", r"[开開骑騎](?:的)?(?:是)?(?:什么|什麼)(?:车|車)|有[车車房](?:子)?[吗嗎]"),
            ("weight", r"体重|體重|有?多重"),
        )
    ),
    what_is=re.compile(r"[我的](?P<what>[^，。？！的我是]{1,12})(?:是|有)(?:多少|什么|什麼|谁|誰|几)"),
    named=tuple(
        (attribute, re.compile(words))
        for attribute, words in (
            ("residence", "住|城市|地址"),
            ("job", "工作|上班|职业|職業|公司|职位"),
            ("employer", "工作|上班|公司"),
            ("relationship", "结婚|結婚|订婚|訂婚|单身|單身|离婚|離婚|[男女]朋友|丈夫|妻子|老公|老婆|交往"),
            ("pet", f"宠物|寵物|{_PET}"),
            ("possession", "汽车|汽車|自行车|自行車|摩托|手机|手機"),
            ("weight", "体重|體重|多重"),
            ("status", "项目|項目|进展|進展|进度|進度"),
            ("diet", "吃素|素食|饮食|飲食"),
            ("rent", "房租|租金"),
        )
    ),
)

_SERIES = SeriesWords(
    every=re.compile(
        "哪些|哪几|多少(?:个|种|次|位|只)|几(?:个|种|次|位|只)(?!月)|两个都|都有|所有|全部|还有(?:谁|什么)"
    ),
    often=re.compile("多久.{0,4}一次|(?:每|一)(?:天|周|个?星期|个?月|年).{0,6}几次|多经常"),
    frequency=re.compile("[一二两三四五六七八九十\\d]次|每(?:天|周|个?星期|个?月|年|晚|早)|天天"),
    happening="发生 什么 做了 事情 什 么",
    i="我",
    my="我的",
    they=re.compile("[他她](?!们|的)"),
    theirs=re.compile("[他她]的"),
    possessive=re.compile("的"),
)

_FOLLOW_UP = FollowUpWords(
    inside=re.compile(
        r"^\W*(?:那(?![个個天年次位])|还有|還有|然后|然後|另外|而且|后来|後來|但是?|可是)|(?<![其吉排])[他她它牠]"
        r"|那(?:里|裡|儿|兒|时|時|件|次|只|隻|位|个(?!人|月|星期|周)|個(?!人|月|星期|周))"
        r"|这(?:里|儿|件|只|位|个(?!周|月|星期|学期|夏|冬))|這(?:裡|兒|件|隻|位|個(?!周|月|星期))|前者|后者|後者"
    )
)

WORDS = Words(
    language="chinese",
    spaced=False,
    first_person=WordList(frozenset(), re.compile("我(?![们們])|本人|俺")),
    ours=frozenset(),
    relatives=_RELATIVES,
    order=_ORDER,
    now=_NOW_WORDS,
    series=_SERIES,
    follow_up=_FOLLOW_UP,
    wordings={
        Attribute.RESIDENCE: Wording(
            "住 搬 住在 搬到 搬家 城市 居住", "住 搬 住在 搬到 搬去 搬家 房子 房间 房間 公寓 房租 租了 租房 定居"
        ),
        Attribute.JOB: Wording(
            "工作 职业 職業 上班 职位 職位 公司",
            f"工作 上班 辞职 辭職 离职 公司 老板 老闆 录用 錄用 面试 升职 升職 解雇 入职 办公 {_OCCUPATIONS}",
        ),
        Attribute.PET: Wording(
            f"宠物 寵物 动物 動物 {_PETS}", f"宠物 寵物 动物 動物 收养 收養 领养 領養 养了 養了 {_PETS}"
        ),
        Attribute.WEIGHT: Wording("体重 體重 多重 公斤", "体重 體重 公斤 千克 斤 瘦了 胖了"),
        Attribute.PROJECT: Wording(
            "项目 項目 进展 進展 进度 進度 状态",
            "项目 項目 计划 計劃 草稿 草图 原型 测试 測試 上线 上線 发布 發布 提交 完成 版本",
        ),
    },
    living="住 住在 居住",
    relative_next=re.compile(f"的?(?:{_RELATIVES})"),
)
