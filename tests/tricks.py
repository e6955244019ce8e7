"""Texts that programs misread: as another type, an option, a path, a command or an invisible name."""

WORDS = r"""
../../etc/passwd /etc/passwd .. // / ~ $(id) `id` ;reboot |cat a>b $HOME ${IFS} ' " \ a\nb -rf --option
-oProxyCommand=id %s%n %h %(x)s {0} {message} {{7*7}} {%if%} {#x#} !!python/object/apply:os.system *alias &anchor
!unsafe << a:b #a yes null <script>alert(1)</script> &lt; ]]> [a](javascript:x) 'OR'1'='1 ';DROPTABLEx;-- a,b
a[1-9] a=b a|b NodeName=x ALL a#b a@b * ? [Service] net.ipv4.ip_forward=1 a;b a/b root head default slurm nobody
localhost all con 0 -1 0x10 1e999 .inf
"""
TRICKS = (
    *WORDS.split(),
    *("", " ", "gpu ", "\tgpu", "gpu\n", "a\r\nb", "\0", "a\0b", "two words", "- a", "a: b", "key: {a: b}"),
    *("\x1b[2J\x1b]0;owned\x07", "\x9b31m", "\u202eabc", "a\u200bb", "\ufeffa", "\u0261pu", "\uff47\uff50\uff55"),
    *("gpu\u0301", "\ud800", "\U0010ffff", "ä", "日本", "a" * 21, "a" * 100_000),
)
