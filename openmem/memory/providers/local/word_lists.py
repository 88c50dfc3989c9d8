"""Stems that say little, as the index has them.

`STOP`: words of grammar. `WEAK`: what any conversation about software is full of. `COMMON`: what
technical English is full of, counted over the docstrings of Python's standard library.
Trap: stems, not words ("hi" is what is left of "his"); a test gives each to the tokenizer.
"""

from __future__ import annotations

_STOP = (
    "a ain am an and ar aren arent as at be been but by can cant could couldn d did didn didnt "
    "do doe doesn doesnt don dont for from ha had hadn hasn have haven he her hi him how i if "
    "im in is isn isnt it iv let ll m me mine my of on or our re s she should shouldn so t than "
    "that the thei their them then there these thi those to us ve wa wasn we were weren what "
    "when where which who whom why will with won wont would wouldn you your "
)
_WEAK = (
    "about abov add after again all along alreadi also ani anoth answer anyth app around ask "
    "assist awai back becaus befor below best better between big bit both branch bug build call "
    "came cannot case chang check close code come command commit content continu correct creat "
    "current dai data delet differ done down dure each either els enough error etc ever everi "
    "everyth exampl explain fals featur few file find finish first fix follow found function "
    "further get git give go good got great hei hello help here idea implement import input "
    "into issu just keep kind know last left less like line list littl long look lot made mai "
    "main make mani mayb mean merg messag might month more most move much must name need "
    "neither never new next nice no none nor not noth now number off often ok okai old onc onli "
    "open other out output over own page part peopl per perfect perhap person plan pleas point "
    "possibl problem proce project pull push put question quit rather read realli remov repo "
    "request result review right run sai said same see seem set sever shall short show sinc "
    "small some someth sound start step still stop such sure take task tell test text thank "
    "thing think though through till time todai togeth too toward true try turn two type under "
    "unless until up updat upon user valu veri version via wai want week well whatev whether "
    "while whose within without work write wrong ye year yesterdai yet "
)
_COMMON = (
    "abc absolut abstract accept access accord action activ actual addit address alias allow "
    "altern alwai api appear append appli applic appropri arbitrari archiv arg argument ascii "
    "assert assign associ assum attempt attribut automat avail avoid background base basic "
    "begin behavior binari bind block bodi boolean bound breakpoint buffer built builtin button "
    "byte bytesio cach calcul callabl callback caller cancel canva caus charact charset child "
    "class clear client codec collect color column com common compar comparison compat compil "
    "complet compon compress comput condit configur connect consid consist construct "
    "constructor contain context control convers convert cooki coordin copi coroutin correspond "
    "count creation cursor custom date datetim debug decim decod decor def default defin depend "
    "deprec deriv describ descript descriptor detail determin dict dictionari digit dir direct "
    "directli directori disabl displai distribut distutil doc docstr doctest document dot draw "
    "effect element email empti enabl encod end ensur enter entir entri enum environ eof equal "
    "equival escap even event exactli exc except execut exist exit expect express extend "
    "extendedcontext extens extra extract factori fail failur field filenam filter final flag "
    "float foo form format frame full func futur gencodec gener given global group handl "
    "handler hash head header height helper hook host howev html http identifi ignor imag "
    "immedi includ index indic info inform inherit init initi insert instal instanc instanti "
    "instead int integ intend interfac intern interpret invalid invok item iter itself join kei "
    "keyerror keyword kwarg lead least len length level librari limit lineno link load loader "
    "local locat lock log logger loop mailbox manag map mark master match maximum member memori "
    "menu method mime mock mode modifi modul msg multipl namespac nan necessari neg network "
    "newlin node non normal note numer obj object occur offset omit oper operand option order "
    "org origin otherwis overrid overridden packag pair paramet parent pars parser particular "
    "pass path pathnam pattern pep perform pickl pipe place platform polici port posit posix "
    "prefix present previou print printabl privat process produc program properti protocol "
    "provid proxi python queri queue quot rais random rang raw readabl real reason receiv "
    "recent record recurs refer regist registri regular rel releas remain replac report repr "
    "repres represent requir reserv reset resourc respect respons retriev return rfc root round "
    "rpc rule runtim safe scheme screen script search second section select self send sent "
    "separ sequenc server setup share side sign signal signatur similar simpl singl size skip "
    "socket sort sourc space spec special specif specifi split stack standard state statement "
    "stderr stdout store str stream strict string structur style sub subclass subprocess "
    "subwidget success suit suitabl suppli support symbol syntax system tab tabl tag takefocu "
    "target tcl termin thread three timeout token top total trace traceback trail transfer "
    "transport treat tree ttk tupl turtl turtlescreen txt typ typic underli unicod unix unknown "
    "url usag usual util valid valueerror variabl variou vendor view wait warn whitespac widget "
    "width window word wrap wrapper written xml yield zero "
)
STOP = frozenset(_STOP.split())
WEAK = frozenset(_WEAK.split())
COMMON = frozenset(_COMMON.split())
