"""Which code points are alphanumeric, and what their upper case is: two tables of the Unicode Character Database.

They are stored, as those of Python change with its version, and terms that are ordered by one version could not be
found by another. They contain the property Alphabetic and the general categories N* of Unicode 18, and the simple upper
case of Unicode 16.

Spec: docs/formats/amudai-indexes.md § 2.2, § 2.3.
"""

from __future__ import annotations

import base64
import zlib
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["CODE_POINTS", "alphanumeric_flags", "upper_case"]

CODE_POINTS: Final = 0x110000
_UPPER_CODE_POINTS: Final = 0x1E944
"""Code points from here on have no upper case of their own."""


def _numbers(packed: str) -> npt.NDArray[np.int64]:
    """Numbers of seven bits a byte, the lowest first, compressed by zlib, in base 85."""
    data = np.frombuffer(zlib.decompress(base64.b85decode(packed)), np.uint8)
    ends = np.flatnonzero(data < 0x80)
    starts = np.append(0, ends[:-1] + 1)
    shifts = 7 * (np.arange(len(data)) - np.repeat(starts, ends - starts + 1))
    return np.add.reduceat((data & 0x7F).astype(np.int64) << shifts, starts)


@cache
def alphanumeric_flags() -> npt.NDArray[np.uint8]:
    """uint8[0x110000]: 1 for code points that are Alphabetic or numeric."""
    edges = np.zeros(CODE_POINTS + 1, np.int8)
    bounds = np.cumsum(_numbers(_ALPHANUMERIC))
    edges[bounds[::2]] = 1
    edges[bounds[1::2]] = -1
    return np.cumsum(edges[:-1], dtype=np.int8).view(np.uint8)


@cache
def upper_case() -> npt.NDArray[np.int32]:
    """int32[n]: the simple upper case of the first n code points; the others have none, and are their own.

    A character whose upper case is several code points is its own, as well.
    """
    table = np.arange(_UPPER_CODE_POINTS, dtype=np.int32)
    runs = _numbers(_UPPER_CASE).reshape(-1, 4)
    starts = np.cumsum(runs[:, 0])
    for start, (_, count, step, distance) in zip(starts.tolist(), runs.tolist(), strict=True):
        places = start + step * np.arange(count)
        table[places] = places + (distance >> 1 ^ -(distance & 1))
    return table


# Lengths of the runs of code points that are not, and that are, alphanumeric, in turns.
_ALPHANUMERIC: Final = (
    "c-m!DO^94Y5az3{?tZV|@BHk}&g|^W>`x}UJNuj6>}J=HteY5(2`YsAc~BHgKy!%1TP`9YK{OsbC@4k{2`C8hB)P3(A}B#TBnQ0&K`(}!#Ix"
    "0J5<z|Mb@%J;>guoRtEvTO8>TT2OMoIM)X>KFisMvU0LL&=1`z{B_GO`pBX|qJRiFzpQ$*vbtdhLS3^R{JdKXH33IPY46Y_=RrL-4{0zE{PO"
    "5H|!2-YH)cCoVNFmfo)$f1IOhz22-Dpvkq00m%zrkD(Y6%6+!{B6WqW}?>$Hk(HZq2TN9YUTe)A!BkO%gKkj{a&G45P8iG))9<SqMp1Rij-0"
    "@Ygv)cAWf2_a7wNM8Rf9oEQeiS!3c^y=e72CwP+HpD)y(Qs8|JbP8Ct6P*y{N6J!H%Cj#S$l67qj$ZhxcYYa(W5hk?vI62}D+SNF~1Xno6#J"
    "*KIotdYo>xHR@TjCk=OfgMK8~taNVNLpdX;tO<F*52NQwa@yNJX|94aC&~A;rs7NyQN5j2m?3r0wYgu8o+(WRi3=!wnN{Yw}*IMk0}*Mv+=v"
    "MutGS?li3<N>@Xt7Aev_Qd8_fE9fm$#-jH~c<V|F(0|&rv*1_3Dkj5;c*~v>DIMw3i-JNt2c=D4nh^=fTIgNBqjxu+{EJ)ng5M+v6oq(T|1O"
    "KX7FzuK?abr0QuWYk(tOM)JPX!6Jg3-o7V?g31;{#Xd$vVeOB<KJz`i-UOsZL(*MWL<dq}702qPW9s1URq?+2V45-ph1<H?9xLYzgWjnyzEX"
    "KLy(4|YgVP8=Dr))aVpNF~h9YiB+^9@lvB!sdOVm%BFBIz}Sc`$=<V^baa;(8^@|n#LtmifoKdszMQ|@fZyW2SP^a*!g%iUMta`7*UJ)Fi(U"
    "n-P0|a-~f91ia5_q@B~i=%W)(G`CxxAs^$1A3I|;<WH60%L$V1oo+qkNo4P@`AXn&7;kwb?#Z}rNGatDlF08fD=>%vRov*k-8rF@PedgfmQn"
    "F;{0%y9yb?s-V7}Gv=a!I6UkWtvC)MPLi@o;&rS*?W!;uf@93z5{VGfT=b2jh~n8<0p7uB%ZQW0Hxyr-)v`?d+OJ^8ZuUr=_+{=P!{W)F0WK"
    "BUWt+Y}QVz)@D&a+*PcQt(&pEzI;WlyF!xkrrI2)RL5+uW9{^jSh8Azl+c2|fD?BhpgHn!NW)9yN>6B%50-E=I5C<z6JpkfaW*2(A4Gc4W1C"
    "Th&C-#$MUnv9r1{e1%nUn2_fZQ=m{KZp$B+&5KCq|G>K`G*yjgxByB3s8{lm8Yj<4^Whr5|vXWND|PfKf+7jllJQei+>uBln&ZsK@Yr~1qxU"
    "bCeQF*CN|FKZKH&!0=)wdvAFySeb!XObr)Qr4uBzpXBmU(tyQtz-PuaW|uCTs>32grj&|Afu?HvDj<zs8o$W#-^Z`C{-4>33Ykf|7ij3cs+d"
    "ssa;t|i3)=Bo>82gb(Z9ouc=iQ%kQYBbZAj@Lrx6_bQivGN<`xZC|ua@3naVu%_Dw1Jd5lb*&g<s%I8o-lj#qh!v6Zh$IrM>=mi`~Qc*NY-*"
    "Pf8!E748SKY<n?k(zkJcf5>>C5%(K7UfV!oNm8boJ+(7r&yd6Mq9~?vHl"
)

# Four numbers for each run of code points that are equally far from their upper case: the distance from the start of
# the run before it, their count, the step from one to the next, and the distance in zigzag form.
_UPPER_CASE: Final = (
    "c-mc4O-NKx6y`hky*Fc{GjCF6%&-v&i!2<oa1rr>77;SoqHT<`cB4eA2t`b65d_Ty7G{4kQ?@W9Y7q%WKZ2-15fPF*X_FzesffOFpNpXf=X>"
    "X#d(U^y{oZ+nCIn}J<yd<fL1P3#1lWQ!3bMe85hI911<ACagT4!VasZ4OBX$K{c{Bqo*ae?ALKvBF85<R&6kNOEAvjfuJU8HlIY$0}vupyGg"
    "wzP?t2Uhm!2!m0g@L~nOY6FV8sKF`&po&J!s311y`}9=7`oS$qolFhC6_%+sC%QtY)q=VT+-%Ni;Ckmd{@KMCR`K0mz8#;q}Q8PwqG{zP}yf"
    "ploVy{Xim4rY{r~np%2B-C0x;)KhgcGs@+o)10LD!2Sr!ODmch~RT;-n!cL%vl&75}f+TR97Y%sVA+lT|-$kAqWQB8l_tO$mD@d~$ZEH#)PT"
    "Nqm=dD(1M_UlI_}oq=Dd%oMcSKMJG)q=+4Q<G8rrI&wamWyUyB-qbEd8ax)XxfU3*>uMAm?jcK2uoiBaD_E{YsmvSH)plOUIb_qvD+J5!__-"
    "g2xK^D16_eMYoN9(h)zQzMu$k@R+lLcc2o(LReSt4~__Y-e+-Or`V%Db&G#v$?jGknFbbE@|w`K9?v4*8P3^9I|wTk=s3r=1&AFM^h-FKb#0"
    "g*+(&r^J%!>HIPWLof_tDUenxOgr`EL!!KF`zKC?rxhf`W#{VT9ShVL~ciZ`FZ)K}+y8T`vOYWAad7JJb<&mMBM3FQ0;a?H<Nj(1^b7AXX)D"
    "SnnaGaxSfL@Q4I1AwJ{%m"
)
