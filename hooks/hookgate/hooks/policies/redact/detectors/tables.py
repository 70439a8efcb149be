"""Tables of the standards that the checks follow."""

_IBAN = """
AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29
ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20
LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29
PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20
YE30
"""

IBAN_LENGTHS = {entry[:2]: int(entry[2:]) for entry in _IBAN.split()}
"""How long a country's IBAN is, by the SWIFT registry."""

VERHOEFF_PRODUCT = tuple(
    tuple(map(int, row))
    for row in [
        "0123456789",
        "1234067895",
        "2340178956",
        "3401289567",
        "4012395678",
        "5987604321",
        "6598710432",
        "7659821043",
        "8765932104",
        "9876543210",
    ]
)
"""Multiplication in the dihedral group of order ten."""

VERHOEFF_PERMUTED = tuple(
    tuple(map(int, row))
    for row in [
        "0123456789",
        "1576283094",
        "5803796142",
        "8916043527",
        "9453126870",
        "4286573901",
        "2793806415",
        "7046913258",
    ]
)
"""The digit's permutation at each place, which repeats after eight."""
