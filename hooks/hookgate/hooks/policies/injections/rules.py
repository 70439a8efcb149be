"""What is found: kinds of findings with their points, each with patterns for the plain spelling of a text.

In a pattern, a blank stands for any white space. Texts are compared without case, accents, emphasis and what
is invisible, so a pattern has none of them (`previas`, `предыдущии`).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2  # type: ignore[import-untyped]  # it has no stubs

from hookgate.hooks.policies.options import compile_pattern

_AI = (
    r"(?:ai|a\.i\.|llms?|(?:large )?language models?|chat ?bots?|chatgpt|gpt-?[0-9o][\w.-]*|claude|gemini|"
    r"copilot|"
    r"(?:ai|digital|virtual|coding|automated|llm)[ -](?:assistants?|agents?|models?|systems?|tools?|"
    r"helpers?))"
)
_READER = rf"(?:{_AI}|assistants?|agents?|bots?)"
_USER = r"(?:the |your |this |any )?(?:end[ -])?users?"

_TEXTS = (
    r"(?:instructions?|iunstructions|prompts?|directions?|directives?|guidelines?|orders?|commands?|rules?|"
    r"restrictions?|constraints?|safeguards?|guardrails?|polic(?:y|ies)|programming|training)"
)
_BEFORE = (
    r"(?:previous|prior|above|earlier|preceding|former|foregoing|past|initial|original|existing|current|"
    r"old|"
    r"system|safety|default|developer|aforementioned|other|user'?s?|previously|earlier|first)"
)
_DROP = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|override|overrule|bypass|discard|neglect|set "
    r"aside|"
    r"pay no attention to|(?:do not|don'?t|stop|never) (?:follow|obey|comply with|listen to)(?:ing)?)"
)
_FILL = (
    r"(?: (?:all|any|every|everything|of|the|your|these|those|my|its|their|both|and|whatever|about|in|"
    r"from))*"
)

_ROMANCE_DROP = (
    r"(?:ignor|oubli|olvid|dimentic|esque[cs]|desconsider|neglig|trascur|omit|"
    r"descart)[a-z]{0,6}"
)
_ROMANCE_TEXTS = (
    r"(?:instru[cz][a-z]*|istruzion[a-z]*|consignes?|directi[vc]es?|directrices|regl[ea]s?|regole|regras|"
    r"ordres?|"
    r"ordenes|indicaci[a-z]*|comand[a-z]*|mensajes|messages?|prompts?)"
)
_ROMANCE_BEFORE = (
    r"(?:precedent[a-z]*|anterieure?s?|anterior[a-z]*|previ[aoe]s?|ci-dessus|initiale?s?|prealables?|de "
    r"arriba|"
    r"acima|sopra|todas|toutes|tutte|tous|todos)"
)

_ADDRESS = (
    r"(?:[\w.+-]+@[\w-]+\.[a-z]{2,}|https?://[^\s]+|www\.[a-z0-9.-]+|(?:[a-z0-9-]+\.)+(?:com|net|org|io|"
    r"xyz|ru|cn|example)"
    r"|[a-z]{2}[0-9]{10,})"
)
_SEND = (
    r"(?:send|forward|e-?mail|mail|post|upload|transmit|exfiltrate|submit|deliver|leak|transfer|wire|relay|"
    r"bcc|"
    r"sende|schicke?|leite|uberweise|ubermittle|envoie[rz]?|envoyez|transfer[aeis]*|transmet[a-z]*|"
    r"envi[ae][a-z]*|"
    r"mand[ae][a-z]*|reenvia[a-z]*|отправ[а-я]*|перешли[а-я]*|отошли[а-я]*|发送|發送|转发|轉發|送信|転送)"
)
_SENSITIVE = (
    r"(?:passwords?|credentials?|secrets?|tokens?|api[ _-]?keys?|private|confidential|personal|security "
    r"codes?|"
    r"passport|credit card|card number|ssn|bank account|inbox|e-?mails|messages|contacts|chat history|"
    r"conversation|history|ssh|env|all (?:the |my |of |your |user )*(?:files|data|information|contents?|"
    r"details)|"
    r"the user'?s?|my (?:files|data|information|contacts|address(?:es)?)|user (?:data|info[a-z]*)|"
    r"passwort[a-z]*|kennwort[a-z]*|mots? de passe|contrasena[a-z]*|密码|密碼|密钥|"
    r"パスワード|парол[а-я]*)"
)
_ANSWER = r"(?:answers?|responses?|reply|replies|outputs?|summar(?:y|ies)|messages?|reports?|reviews?)"
_SHAPE = (
    r"(?:includ|add|mention|insert|integrat|append|prepend|modif|augment|enhanc|writ|put|say|stat|end|"
    r"begin|start|"
    r"finish|provid|render|replac|convert|translat|encod|embed|introduc|remov|scrambl|rearrang|conclud|"
    r"preced|"
    r"prefix|suffix|incorporat|weav|recommend|promot|suggest|jumbl|group|us|substitut|misspell|print|"
    r"output|"
    r"display|reveal|repeat|creat|craft|giv|deliver)[a-z]{0,4}"
)
_START = (
    r"(?:^|[\n.:!?;)\]\"”>] ?|\n[0-9]+[.)] |- )(?:please |then |also |first |now |and |next |"
    r"finally,? |kindly )*"
)
_ACT = (
    r"(?:send|forward|get|fetch|retrieve|find|search|show|read|list|access|collect|gather|extract|look up|"
    r"provide|"
    r"give|grant|schedule|book|buy|purchase|order|transfer|pay|wire|delete|remove|erase|wipe|add|share|"
    r"update|"
    r"change|unlock|lock|disable|enable|deactivate|create|post|make|reserve|cancel|invite|e-?mail|download|"
    r"upload|"
    r"export|review|check|set|turn (?:on|off)|withdraw|deposit|request|record|install|uninstall|use|visit|"
    r"open|"
    r"concatenate|modify|reset|move|rename|save|activate|initiate|arrange|notify|tell|submit|publish|sell)"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of findings."""

    points: int
    """How much a finding of this kind counts in a result."""
    patterns: tuple[str, ...] = ()
    """What is found in the plain spelling of a text. What has no patterns is found by other means."""


KINDS: Mapping[str, Kind] = {
    # Takes the reader's instructions away.
    "override": Kind(
        2,
        (
            rf"\b{_DROP}{_FILL} {_BEFORE}(?: [\w-]+){{0,2}} {_TEXTS}\b",
            rf"\b{_DROP}(?: all| every| any of)?(?: of)? (?:your|these|those|my) (?:[\w-]+ "
            rf"){{0,2}}{_TEXTS}\b",
            rf"\b{_DROP} (?:everything|all|anything|what)(?: that| which)?(?: (?:i|you|we|they|was|were|is|"
            rf"has|have|"
            r"been|had|user))* (?:said|told|written|read|instructed|asked|above|before|previously|so far|"
            r"up to now)\b",
            rf"\b{_DROP}{_FILL} {_TEXTS} (?:above|before|given (?:above|before|earlier|by the user)|so "
            rf"far)\b",
            r"\b(?:ignore|disregard|forget|skip) (?:all |any )?(?:of )?(?:the )?(?:rest|remainder) of "
            r"(?:this|the|these|that)\b",
            r"\b(?:ignore|disregard|forget) (?:the |all |any |these |those )*instructions?,? (?:and|then|"
            r"but)\b",
            rf"\b{_DROP} [^\n.]{{1,80}} and (?:instead|just|only|simply) ",
            r"\b(?:stop|halt|abort|abandon|cancel|suspend|drop)(?: what you are doing|(?: the| your| this| "
            r"any){1,2} (?:current|"
            r"previous|original|ongoing|user'?s?) (?:task|request|query|work|assignment|process))\b",
            r"\b(?:clear|reset|erase|wipe|delete) your (?:context|memory|history|instructions|previous|"
            r"conversation)\b",
            rf"\b{_BEFORE} {_TEXTS}(?: (?:are|is|have been|has been|were|should be|must be|can be|now|no "
            rf"longer|all))+ "
            r"(?:void|cancell?ed|obsolete|outdated|superseded|overrid(?:den|e)|invalid|ignored|disregarded|"
            r"valid|"
            r"forgotten|apply|revoked)\b",
            r"\b(?:ignore|disregard|forget)[-_+./]?(?:all)?[-_+./]?(?:of)?[-_+./]?(?:the|your|my|"
            r"any)?[-_+./]?(?:previous|prior|"
            r"above|earlier|system)[-_+./]?(?:instructions?|prompts?|rules|directions)",
            r"\b(?:ignorier|vergiss|vergess|missacht|beacht|uberspring)[a-z]*(?: [\pL-]+){0,4} (?:bisherig|"
            r"vorherig|"
            r"vorangegangen|vorangehend|obig|fruher|ursprunglich|alle|deine|ihre|vorig|sonstig)[a-z]*(?: "
            r"[\pL-]+){0,2} "
            r"(?:anweisung|instruktion|regel|befehl|vorgabe|richtlinie|prompt|auftrag|auftrage|"
            r"nachricht)[a-z]*",
            rf"\b{_ROMANCE_DROP}(?: [\pL']+){{0,5}} {_ROMANCE_TEXTS}(?: [\pL']+){{0,3}} "
            rf"{_ROMANCE_BEFORE}\b",
            rf"\b{_ROMANCE_DROP}(?: [\pL']+){{0,3}} {_ROMANCE_BEFORE}(?: [\pL']+){{0,3}} "
            rf"{_ROMANCE_TEXTS}\b",
            "(?:忽略|无视|無視|忘记|忘記|忘掉|不要理会|抛开|推翻|不用管).{0,12}"
            "(?:之前|以上|先前|前面|上述|上面|此前|以前|所有|全部|原有|一切).{0,10}"
            "(?:指令|指示|提示|命令|规则|規則|要求|说明|設定|设定)",
            "(?:これまで|以前|上記|前の|すべて|全て|今まで|先ほど|元の|従来).{0,12}"
            "(?:指示|命令|ルール|プロンプト|指令|制約|設定).{0,8}(?:無視|忘れ|破棄|従わな)",
            "(?:игнориру|проигнорируи|забуд|не обращаи|отмени|пренебрег)[а-я]*(?: [а-я]+){0,4} "
            "(?:предыдущ|прежн|предшеств|вышеуказан|вышеизлож|все|всех|ранн|прошл|свои|системн)[а-я]*"
            "(?: [а-я]+){0,3} (?:инструкц|указани|команд|правил|распоряжени|промпт|приказ)[а-я]*",
            "(?:이전|위의|앞의|기존|모든).{0,12}(?:지시|명령|지침|프롬프트|규칙).{0,6}(?:무시|잊)",
        ),
    ),
    # Poses as a turn of the conversation: the markers of chat templates.
    "role": Kind(
        2,
        (
            r"<\|[a-z_]{2,30}\|>",
            r"<(?:start|end)_of_turn>|\[/?inst\]|<</?sys>>",
            r"</?(?:assistant|system[ _-]?(?:prompt|message|instructions?|reminder|override|note)?)>",
            r"#{2,} ?\(?(?:system|assistant|human|developer|instruction)s?[ _-]?(?:message|prompt|note|"
            r"override)?\)?"
            r" ?(?::|\n|\) )",
            r"\n(?:assistant|ai|model|bot) ?: ?[^\n]{0,300}\n+(?:user|human) ?:",
        ),
    ),
    # Weaker signs of the same: a role before a colon or in brackets.
    "speaker": Kind(
        1,
        (
            r"\n ?[\[({<]{0,2}(?:system|assistant|developer|admin|ai)(?: (?:message|prompt|note|"
            r"instructions?|"
            r"override|alert|notice|update|command|directive))?[\])}>]{0,2} ?:",
            r"\bthe user'?s? (?:next )?(?:message|request|question|input) (?:is|was|follows) ?:",
            r"\[(?:system|assistant|admin|developer|user)(?: [\w ]{1,30})?\]",
            r"\buser: ?[^\n]{1,300}\n+ ?(?:assistant|ai|model): ?",
        ),
    ),
    # The end of the data, or what only the agent's side would write.
    "boundary": Kind(
        1,
        (
            r"</(?:tool[_ -]?(?:results?|response|output|call)|function[_ -]?(?:results?|calls?|response)|"
            r"search_results?|untrusted[\w-]*|data|document|e?-?mail|context|results?|output|information|"
            r"content|"
            r"user_?(?:query|input|data)?|text|body_text|webpage|instructions?)>",
            r"<(?:information|important|instructions?|admin|tool_call|function_calls?|user_query)>",
            r"\b(?:end|begin(?:ning)?|start|close) of (?:the |this |my )?(?:tool|function|e-?mails?|"
            r"documents?|context|"
            r"web ?page|user|system|search|retrieved|external|quoted|first|last|previous) ?"
            r"(?:results?|outputs?|responses?|messages?|data|input|text|content|instructions?|query|"
            r"prompt)?\b",
            r"[-=#*_<\[]{3,} ?(?:end|begin|start|new|system|user|admin|"
            r"important)\b[^\n]{0,40}[-=#*_>\]]{2,}",
        ),
    ),
    # Speaks to a model, not to people.
    "addressed": Kind(
        2,
        (
            rf"\b(?:if|when|since|because|as) you(?:'re| are)?(?: an?| the| any)?(?: [\w-]+){{0,2}} "
            rf"{_AI}\b",
            rf"\b(?:note|message|notice|instructions?|reminder|attention|memo|request|hint|directive|"
            rf"order)s?"
            rf"(?: to| for|:)?(?: the| all| any| an?| every| you)* {_READER}\b ?[:,.!\])-]",
            r"\b(?:note|message|notice|instructions?|attention|information|profile|metadata|text)s?(?: to| "
            r"for)(?: the| all| "
            r"any)* (?:automated|automatic|machine|ai|llm)[ -](?:based )?(?:analysis|screening|review|"
            r"reading|processing|"
            r"grading|ranking|summari[sz]ation|evaluation|systems?|readers?|tools?|software|agents?)\b",
            r"\b(?:visible|readable|meant|intended|addressed|directed|hidden) (?:only )?(?:to|for|at|from) "
            r"(?:the )?"
            r"(?:llms?|ai|language models?|bots|humans)\b",
            rf"\b(?:dear|hey|hello|hi|attention|ok|okay|listen,?)(?: all| any| the| fellow| my| other)* "
            rf"{_AI}\b",
            rf"\b(?:all|any|every) {_AI}(?: [\w-]+){{0,6}} (?:must|should|have to|has to|need to|are "
            rf"required to|shall)\b",
            r"\b(?:ai|llm|coding|automated) (?:assistants?|agents?|models?)(?: [\w-]+){0,5} (?:must|have "
            r"to|are "
            r"required to|shall|need to|should)\b",
            rf"\bto you, ?{_READER}\b|\bmessage from me, ?[\w ]{{1,40}}, ?to you\b",
            r"\bfrom your (?:developers?|creators?|administrators?|operators?|makers?|system administrator|"
            r"programmers?)\b",
            r"\b(?:assistants?|agents?|models?|bots?) (?:reading|processing|summari[sz]ing|parsing|"
            r"handling) this\b",
            r"\b(?:wenn|falls) (?:du|sie) (?:ein|eine|der|das) (?:[\pL-]+ )?(?:ki|sprachmodell|assistent|"
            r"chatbot|bot)\b",
            r"\bsi (?:tu es|vous etes|eres|usted es) une? (?:[\pL]+ )?(?:ia|modele de langage|assistant|"
            r"asistente|"
            r"modelo de lenguaje)\b",
            "如果你是.{0,8}(?:人工智能|语言模型|語言模型|助手|ai)",
            "あなたが.{0,8}(?:ai|言語モデル|アシスタント)",
            "если (?:ты|вы)(?: [а-я-]+){0,2} (?:ии|языковая модель|ассистент|чат-бот|помощник)",
        ),
    ),
    # Says what the reader's task is, or what comes before it.
    "task": Kind(
        2,
        (
            r"\bbefore (?:you )?(?:can |may |could |begin |start )?(?:to )?(?:solv|complet|finish|answer|"
            r"respond|"
            r"continu|proceed|reply|summari[sz]|perform|do)(?:e|ing|y)?(?: [\w']+){0,8}[,:]? (?:please |"
            r"you must |"
            r"you need to |you have to |you should |first )+(?:do|follow|perform|execute|complete|send|"
            r"call|use|run|"
            r"make|fetch|visit|read|get|forward|delete|create|post)\b",
            r"\b(?:task|request|question)(?: that)? i (?:gave|asked|assigned|set)(?: to)? you\b",
            r"\bstrictly (?:adhere to|follow|obey)\b",
            r"\byour (?:new|real|actual|next|only|true|updated|primary|revised|sole) (?:task|goal|"
            r"objective|"
            r"instructions?|mission|job|role|purpose|directive)s?(?: now)?(?: is\b| are\b|:)",
            r"\b(?:new|updated|additional|revised|special|secret|hidden|real) (?:system (?:instructions?|"
            r"task|directives?|"
            r"orders?|prompt|objective)s? ?:|(?:instructions?|task|directives?|orders?|prompt|objective)s? "
            r"(?:for (?:you|the "
            r"(?:ai|assistant|agent|model))|from the user) ?:)",
            r"\b(?:you should|you must|please|also|make sure to) (?:also )?(?:do|perform|execute|carry out|"
            r"complete) "
            r"the following (?:instructions?|tasks?|actions?|steps? first|first|before|instead)\b",
            r"\b(?:instead|rather)[,:]? (?:of (?:that|this|summari[sz]ing|answering|the)[^.\n]{0,60}[,:] "
            r"?)?(?:please )?"
            r"(?:do|perform|execute|follow|complete|output|print|respond|reply|answer|write|say)\b(?: with|"
            r" the| only|:)",
            r"\b(?:after|once) (?:you (?:do|have done|did|complete|finish|are done)|doing|completing|that "
            r"is done)"
            r"(?: [\w']+){0,6},? (?:continue|resume|proceed|you can|return|go on|carry on) (?:with |to |"
            r"solve |doing )"
            r"(?:the |your |my )?(?:original|user'?s|previous|initial|task|actual)\b",
            r"\bdeine neue aufgabe\b|\bneue anweisung(?:en)?(?: [\pL]+){0,3}:|\bnouvelles? "
            r"(?:instructions?|taches?|"
            r"consignes?)(?: [\pL]+){0,3} ?:|\bnuevas? (?:instrucci[a-z]+|tareas?)(?: [\pL]+){0,3} ?:",
            "新(?:的)?(?:指令|任务|任務|指示)(?:是|为|如下)?[:：]|新しい(?:指示|タスク|命令)[:：は]",
            r"новые? (?:инструкци|задани|указани|задач)[а-я]*(?: [а-я]+){0,3} ?:",
        ),
    ),
    # Keeps something from the user.
    "secrecy": Kind(
        2,
        (
            rf"\b(?:do not|don'?t|never|must not|should not|without|avoid|refrain from) (?:[\w-]+ "
            rf"){{0,2}}(?:tell|inform|"
            rf"mention|notify|alert|warn|reveal|disclos|report|let|explain|show)(?:e|ing|ting)?(?: "
            rf"[\w']+){{0,4}}"
            rf"(?: to)? {_USER}(?:$|[ ,.;:!])(?:about|of|that|know|this|these|what|anything|[,.;:!\n]|$)",
            r"\b(?:do not|don'?t|never) (?:mention|reveal|acknowledge|disclose|repeat|quote|refer to|"
            r"explain|discuss) "
            r"(?:this|these|that|the) (?:[\w-]+ )?(?:instruction|message|note|step|request|paragraph|text|"
            r"action|"
            r"command|prompt|procedure)s?\b",
            r"\b(?:the |your )users? (?:must|should|does|will|may|can|need)(?: not|n'?t)(?: [\w]+){0,3} "
            r"(?:know|see|notice|"
            r"find out|learn|be (?:told|informed|notified|aware))\b",
            r"\b(?:keep|do) (?:this|it|all of this) (?:[\w-]+ )?(?:secret|hidden|silently|secretly|quietly|"
            r"between us|"
            r"confidential from)\b",
            r"\b(?:sag|verrat|erzahl|teil|informier|erwahn)[a-z]*(?: [\pL]+){0,3} (?:nutzer|benutzer|"
            r"anwender)[a-z]*"
            r"(?: [\pL]+){0,3} (?:nicht|nichts)\b|\bohne (?:den|die) (?:nutzer|benutzer)[a-z]* zu "
            r"(?:informieren|fragen)\b",
            r"\bne (?:dis|dites|mentionne[rz]?|informe[rz]?|previens|prevenez|revele[rz]?)(?: "
            r"[\pL']+){0,4} "
            r"l'utilisateur\b|\bno (?:le )?(?:digas|diga|informes?|menciones?|avises|reveles?)(?: "
            r"[\pL]+){0,4} "
            r"(?:al )?usuario\b|\bsans (?:prevenir|informer|avertir) l'utilisateur\b|\bsin (?:avisar|"
            r"informar) al usuario",
            "(?:不要|别|請勿|请勿|不得).{0,4}(?:告诉|告訴|告知|通知|提及|透露).{0,6}(?:用户|用戶|使用者)",
            "(?:ユーザー|利用者).{0,6}(?:言わない|知らせない|伝えない|教えない|通知しない|報告しない)",
            "не (?:говори|сообщаи|упоминаи|рассказываи|раскрываи|уведомляи)[а-я]*"
            "(?: [а-я]+){0,3} пользовател[а-я]*",
        ),
    ),
    # Does not wait for consent.
    "unattended": Kind(
        1,
        (
            r"\b(?:without|do not|don'?t|no need to|never)(?: (?:ask|asking|wait|waiting|request|"
            r"requesting|require|"
            r"requiring|seek|seeking|need|needing|for|any|further|additional|my|me|the|user'?s?|prior))+ "
            r"(?:confirmation|approval|permission|consent|verification|me\b|again\b)",
            r"\bwithout asking\b|\b(?:silently|secretly|covertly|discreetly) (?:[a-z]+ )?(?:send|run|call|"
            r"execute|add|"
            r"forward|upload|delete|copy|fetch)\b",
        ),
    ),
    # Gives the reader another part to play.
    "persona": Kind(
        2,
        (
            rf"\byou(?:'re| are) now(?: in)?(?: an?| the| my| no longer)?(?: [\w-]+){{0,3}} (?:mode|"
            rf"{_READER}|dan|"
            r"unrestricted|unfiltered|jailbroken|hacker|terminal|root|admin(?:istrator)?|persona|expert|"
            r"pirate)\b",
            r"\b(?:developer|debug|god|admin|dan|maintenance|sudo|jailbreak|unrestricted|diagnostic|root|"
            r"override) mode"
            r"(?: has been| is| now)* (?:on|enabled|activated|engaged|active)\b",
            r"\b(?:enter|enable|activate|switch (?:in)?to|engage)(?: into| the)? (?:developer|debug|god|"
            r"admin|dan|"
            r"maintenance|sudo|jailbreak|unrestricted|diagnostic) mode\b|\bdo anything now\b",
            r"\byou (?:have|are (?:under|bound by|free (?:of|from))) (?:no|any|all) (?:longer "
            r")?(?:restrictions|"
            r"limitations|rules|guidelines|filters)\b",
            rf"\b(?:act as|pretend (?:to be|you are|that you are)|roleplay as|play the role of|behave like|"
            rf"simulate)"
            rf"(?: an?| the| if you were an?)?(?: [\w-]+){{0,3}} {_READER}\b",
            r"\bfrom now on,? (?:you (?:will|must|are|shall|should|only)|your|always|answer|respond|reply|"
            r"act|add|"
            r"include|use|send|call|end|begin|only)\b",
            r"\bdu bist (?:jetzt|nun|ab sofort) (?:ein|eine|im|der|die)\b|\btu es (?:maintenant|desormais) "
            r"une?\b|"
            r"\bahora eres une?\b",
            "你现在是|你現在是|从现在开始.{0,4}你|あなたは(?:今|これ)から|теперь ты|отныне ты",
        ),
    ),
    # Claims to speak for someone.
    "authority": Kind(
        1,
        (
            r"\bsystem (?:override|alert|notice|instruction|command|directive|prompt)s? ?[:!\]\-—]",
            r"\b(?:admin(?:istrator)?|security|developer|emergency|priority|root) (?:override|directive|"
            r"instruction|"
            r"command|order)s?\b",
            r"\b(?:urgent|important|critical|mandatory|attention|warning|high priority)(?: [\w]+)?!{2,}|"
            r"\b(?:urgent|important|critical|mandatory) (?:system )?(?:instruction|directive|command|order|"
            r"task)s?\b",
            r"\n(?:new|updated|additional|revised|special) (?:instructions?|task|directives?|orders?|"
            r"prompt|objective)s? ?:",
            r"\bthe (?:assistant|agent|ai|model) (?:must|has to|shall|is (?:required|instructed|expected|"
            r"obliged) to)\b",
            r"\b(?:to|in order to) (?:complete|finish|fulfil+|continue with|proceed with) (?:this|the|"
            r"your) (?:task|request|"
            r"verification|analysis),? (?:you )?(?:must|need to|have to|first|should)\b",
            r"\bthe user (?:has |have |already |also )*(?:approved|consented|authori[sz]ed|agreed|granted|"
            r"confirmed|"
            r"requested|instructed|wants you|asked you|would like you)\b",
            r"\b(?:authori[sz]ed|approved|required|requested|mandated|verified) by (?:the )?(?:user|system|"
            r"admin"
            r"(?:istrator)?|developers?|openai|google|anthropic|microsoft|security team)\b",
            r"\b(?:highest|top|maximum|absolute) priority\b|\btakes? (?:precedence|priority) over\b|"
            r"\bhat vorrang vor\b|\ba (?:la )?priorite sur\b|\btiene prioridad sobre\b|имеет приоритет над|"
            r"よりも優先|优先于|優先於|"
            r"\b(?:must|should|has to|have to) be (?:executed|performed|carried out|completed|followed|"
            r"obeyed) "
            r"(?:immediately|now|at once|first|without delay|exactly)\b|"
            r"\b(?:please )?execute (?:the |this |these )?(?:[\w-]+ )?(?:protocol|instructions?|directive|"
            r"order)s?\b|"
            r"\bfocus (?:only|exclusively|solely) on\b|\brepeat (?:the following|after me)\b",
            r"\btodo: (?:send|delete|transfer|visit|change|get|make|invite|create|forward|please)\b",
        ),
    ),
    # Orders a tool.
    "tool": Kind(
        1,
        (
            r"\b(?:call|use|invoke|run|execute|trigger|utili[sz]e)(?: the| your| this| an?| following)* "
            r"(?:tools?|plugins?)(?: (?:named|called))? ?['\"(]?[a-z]+[_.-]?[a-z_]+",
            r"\b(?:call|invoke|trigger|using|use|with)(?: the| your)* ['\"]?[a-z][\w-]*[_-][\w-]+['\"]? "
            r"(?:tool|plugin)\b",
        ),
    ),
    # Wants data, or a text that the attacker chose, sent to an address.
    "exfiltration": Kind(
        2,
        (
            r"\b(?:send|write|compose|draft|forward)(?: an?| the| this| another| one)* "
            rf"(?:e-?mail|mail|message|reply|dm) to ['\"<(]?{_ADDRESS}['\">)]?"
            r"(?: [^\s.]+){0,3} (?:with|containing|saying|using|whose|stating|and (?:use|put|set|write))\b"
            r"(?: [^\s.]+){0,3} (?:body|subject|contents?|text|message|title|words?|attachment)\b",
            rf"\b{_SEND}\b[^\n.]*\b{_SENSITIVE}\b[^\n.]*{_ADDRESS}",
            rf"\b{_SENSITIVE}\b[^\n.]*[ ,.]{_SEND}\b[^\n.]* (?:to|at|an|a|на|zu) [^\n.]*{_ADDRESS}",
            rf"\b(?:append|add|include|put|encode|insert)\b[^\n.]*\b{_SENSITIVE}\b[^\n.]* (?:url|query|"
            rf"parameter|link)s?\b",
            r"!\[[^\]\n]*\]\(https?://[^)\s]*[?&][^)\s]*(?:\{|\[|%7b|<|\$|=data|=secret|=token)",
            r"https?://[^\s]*[?&/][\w-]*=? ?['\"]? ?(?:followed by|and then|plus|\+|with) (?:the|your|my|"
            r"all)\b",
        ),
    ),
    # Wants something sent to an address.
    "send": Kind(
        1,
        (
            rf"(?:^|[\s\"'.,:]){_SEND}(?: [^\s]+){{0,14}} (?:to|at|an|a|на|zu|на адрес) ['\"<(]?{_ADDRESS}",
            r"\n(?:[-0-9.)] ?)*(?:send|forward|e-?mail|reply|address|recipient|enviar|envoyer|senden|отправить)?"
            r"(?: it)? ?(?:to|an|a|на|кому|destinataire|destinatario|empfanger|получатель|送信先|收件人|发送到|发送至)"
            rf" ?[:：] ?{_ADDRESS}",
        ),
    ),
    # Wants to know what the model was told, or what is secret.
    "reveal": Kind(
        2,
        (
            r"\b(?:reveal|print|repeat|show|output|display|leak|disclose|return|tell me|write out|expose|"
            r"dump|give me|"
            r"share|recite|summarize|include)(?: [\w'-]+){0,4} (?:system prompt|initial prompt|hidden "
            r"(?:prompt|"
            r"instructions)|your (?:instructions|prompt|guidelines|system message|rules|initial)|secret "
            r"word|"
            r"everything above|(?:the )?conversation (?:above|history)|text above|words above|chat "
            r"history)\b",
            r"\b(?:reveal|print|repeat|show|output|display|recite)(?: out| all| me| back| of)*(?: the| "
            r"your| these| any)* "
            r"(?:above |previous |prior |initial |original |earlier |given )+(?:instructions?|prompts?|"
            r"text|messages?)\b",
            r"\b(?:reveal|print|leak|disclose|tell me|exfiltrate|dump|share|paste|include)(?: "
            r"[\w'-]+){0,4} (?:(?:api|secret|"
            r"private|access|ssh|deploy) keys?|environment variables|\.env|credentials|password|access "
            r"tokens?)\b",
        ),
    ),
    # Says what the answer has to be like.
    "answer": Kind(
        2,
        (
            rf"\b{_SHAPE}(?: [^\s.!?]+){{0,14}} your (?:[\w-]+ )?{_ANSWER}\b",
            rf"\bin your (?:[\w-]+ )?(?:answer|response|summary|output)s?,? (?:please )?(?:{_SHAPE}|always|"
            rf"only|also|make)\b",
            rf"\b(?:end|begin|start|finish|conclude|preface|prepend) (?:every|each|all|the|your) (?:[\w-]+ "
            rf")?{_ANSWER} "
            r"(?:with|by)\b",
            rf"\bwhen (?:you )?(?:summari[sz]|answer|respond|reply|present|describ|review|evaluat)(?:e|ing|"
            rf"y)?"
            rf"(?: [\w']+){{0,6}},? (?:{_SHAPE}|always|make sure|also|only)\b(?: [\w']+){{0,3}}",
            r"\b(?:respond|reply|answer) (?:only )?(?:with|in|by saying) (?:only |just |nothing but |"
            r"exactly |the word|"
            r"the phrase|the text|a single)",
            r"\b(?:simply|only|always|just) (?:respond|reply|answer|output|print|report|say)(?: with| that|"
            r":| in)",
            r"\bprovide your (?:answer|response|reply)\b|\b(?:translate|reverse|encode|encrypt) your\b",
        ),
    ),
    # Wants code in what the reader writes.
    "code": Kind(
        2,
        (
            r"\b(?:following|subsequent|below|next) code (?:snippet|block|excerpt|section|segment|fragment|"
            r"piece)s?\b"
            r"[^\n]{0,80}\b(?:your|the) (?:code|solution|implementation|codebase|algorithm|response|answer|"
            r"program|logic|"
            r"elucidation)\b",
            r"\b(?:your|the) (?:code|solution|implementation|codebase|algorithm|response|answer|"
            r"elucidation)\b[^\n]{0,80}"
            r"\b(?:following|subsequent|below|next) code (?:snippet|block|excerpt|section|segment|fragment|"
            r"piece)s?\b",
        ),
    ),
    # Asks for something in the user's name, or about what is the user's.
    "request": Kind(
        2,
        (
            rf"{_START}{_ACT} (?:[^\s.]+ ){{0,8}}"
            r"(?:my|for me|the user'?s? (?:e-?mails?|messages?|inbox|files?|contacts?|(?:home "
            r")?address(?:es)?|"
            r"location|history|accounts?|data|details|information|calendar|passwords?|photos?|payments?|"
            r"card|"
            r"records?))\b",
        ),
    ),
    # Orders something that cannot be undone, or that costs something.
    "order": Kind(
        1,
        (
            rf"{_START}(?:delete|remove|erase|wipe|unlock|disable|deactivate|withdraw|cancel|grant|share|"
            r"change) (?:all|every|the|any|as much)\b[^\n.]{0,60}"
            r"\b(?:files?|e-?mails?|messages?|accounts?|passwords?|access|permissions?|money|funds|"
            r"records?|history|events?|contacts?|devices?|lock|alarm|"
            r"reminders?|backups?|data)\b",
            rf"{_START}(?:transfer|wire|pay|send|deposit|withdraw|donate) (?:[^\s.]+ ){{0,3}}[$€£¥]? "
            rf"?[0-9]",
            r"\b(?:message|e-?mail)?(?: body|body| text|content| subject)(?: of [a-z ]{1,20})?(?: line)? "
            r"(?:must|should|has to|"
            r"needs to) (?:only |exactly )?(?:be|contain|read|say)\b|\bmust be exactly\b",
            r"\b(?:el cuerpo|le corps|der (?:text|inhalt)|il testo) [^\n.]{0,40}(?:debe|doit|muss|deve)\b|"
            r"текст сообщения должен|本文は正確に|正文(?:必须|应该)|内容必须",
            rf"{_START}(?:grant|give) (?:[^\s.]+ ){{0,6}}(?:access|permissions?|rights|privileges)\b",
            rf"{_START}(?:visit|open|go to|navigate to|click)(?: on)? (?:[^\s.]+ ){{0,4}}{_ADDRESS}",
        ),
    ),
    # Orders a tool that the request declares, by its name.
    "declared_tool": Kind(2),
    # In what is not shown, there is something of another kind.
    "hidden": Kind(1),
    # What is encoded in the text says something of another kind.
    "encoded": Kind(1),
    # Invisible characters carry data.
    "invisible": Kind(2),
}
"""All kinds by their names."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A place at which something of a kind was found."""

    at: int
    """The number of the first byte, in the plain spelling."""
    kind: str


def search(text: str, tools: Collection[str] = ()) -> Iterator[Finding]:
    """Yield what is found in a text in plain spelling. `tools` are the names of declared tools."""
    data = text.encode()
    for kind, pattern in _patterns():
        for match in pattern.finditer(data):
            yield Finding(match.start(), kind)
    if tools:
        # A name that is an ordinary word has to be called a tool.
        names = {name.casefold(): not name.isalpha() or not name[1:].islower() for name in tools}
        for match in compile_pattern(_ORDERED.replace(" ", r"\s")).finditer(data):
            name, called_tool = match[1].decode(), match[2]
            if names.get(name) or (called_tool and name in names):
                yield Finding(match.start(), "declared_tool")


_ORDERED = (
    r"\b(?:call|use|using|invoke|run|execute|trigger|with)(?: the| your| tool| function| named| called)* "
    r"['\"(]?([a-z][\w.-]*[a-z0-9])(?:['\")]* (tool|function)\b)?"
)


@cache
def _patterns() -> list[tuple[str, Any]]:
    """Return a pattern for each kind, as a search for many takes little longer than one for one."""
    options = re2.Options()
    options.max_mem = _MEMORY
    return [
        (name, re2.compile("|".join(f"(?:{each})" for each in kind.patterns).replace(" ", r"\s"), options))
        for name, kind in KINDS.items()
        if kind.patterns
    ]


_MEMORY = 1 << 26
"""The bytes that a pattern may take, so that searches need not forget what they have learned of it."""
