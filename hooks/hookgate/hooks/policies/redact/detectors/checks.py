"""Checks that distinguish genuine numbers from other digits."""

import re
from hashlib import sha256

_IBAN = """
AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29
ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20
LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29
PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20
YE30
"""

IBAN_LENGTHS = {entry[:2]: int(entry[2:]) for entry in _IBAN.split()}
"""The length of IBANs by country, from the SWIFT registry."""

_NO_DIGIT = re.compile(r"[^0-9]")
_NO_SIGN = re.compile(r"[^0-9A-Za-z]")
_CARD_PREFIXES = (
    # first prefix, last prefix (both have the same number of digits), lengths
    (4, 4, (13, 16, 19)),  # Visa
    (51, 55, (16,)),  # Mastercard
    (2221, 2720, (16,)),
    (34, 34, (15,)),  # American Express
    (37, 37, (15,)),
    (300, 305, (14, 16)),  # Diners Club
    (3095, 3095, (14, 16)),
    (36, 36, (14,)),
    (38, 39, (14, 16)),
    (6011, 6011, (16, 19)),  # Discover
    (644, 659, (16, 19)),
    (35, 35, (16, 19)),  # JCB, of which 3528 to 3589 are issued
    (1800, 1800, (15,)),  # JCB, older ones
    (2131, 2131, (15,)),
    (62, 62, (16, 17, 18, 19)),  # UnionPay
    (81, 81, (16, 17, 18, 19)),
    (50, 50, (16, 19)),  # Maestro and Verve
    (56, 58, (12, 13, 14, 15, 16, 17, 18, 19)),  # Maestro
    (5018, 5018, (12, 13, 14, 15, 17, 18)),
    (5020, 5020, (12, 13, 14, 15, 17, 18)),
    (5038, 5038, (12, 13, 14, 15, 17, 18)),
    (5893, 5893, (12, 13, 14, 15, 17, 18)),
    (6304, 6304, (12, 13, 14, 15, 16, 17, 18, 19)),
    (6390, 6390, (12, 13, 14, 15, 16, 17, 18, 19)),
    (67, 67, (16, 19)),
    (6759, 6759, (12, 13, 14, 15, 17, 18)),
    (6761, 6763, (12, 13, 14, 15, 17, 18)),
    (60, 60, (16,)),  # RuPay, UkrCard, Hipercard
    (82, 82, (16,)),
    (636, 639, (16,)),  # Elo, InterPayment, InstaPayment
    (2200, 2205, (16, 17, 18, 19)),  # Mir, Borica
    (9792, 9792, (16,)),  # Troy
    (9860, 9860, (16,)),  # Humo
    (8600, 8600, (16,)),  # Uzcard
)
_MAESTRO_FROM_ZERO, _SHORTEST_MAESTRO = "0604", 12


def digits_of(text: str) -> list[int]:
    """Return the digits of a text, ignoring everything between them."""
    return [int(digit) for digit in _NO_DIGIT.sub("", text)]


def is_card(text: str) -> bool:
    """Check a card number (ISO/IEC 7812): the issuer's prefix, the length, and the Luhn digit."""
    digits = digits_of(text)
    return luhn(digits) and _issued("".join(map(str, digits)))


def _issued(digits: str) -> bool:
    if digits[0] == "0":
        return digits.startswith(_MAESTRO_FROM_ZERO) and len(digits) == _SHORTEST_MAESTRO
    return any(
        first <= int(digits[: len(str(first))]) <= last and len(digits) in lengths
        for first, last, lengths in _CARD_PREFIXES
    )


def luhn(digits: list[int]) -> bool:
    """Check the Luhn digit (ISO/IEC 7812-1, annex B)."""
    doubled = [
        digit if place % 2 == 0 else (digit * 2 - 1) % 9 + 1 if digit else 0
        for place, digit in enumerate(reversed(digits))
    ]
    return sum(doubled) % 10 == 0


def is_iban(text: str) -> bool:
    """Check an IBAN (ISO 13616): the country's length, and a remainder of 1 modulo 97."""
    packed = _NO_SIGN.sub("", text).upper()
    if IBAN_LENGTHS.get(packed[:2]) != len(packed):
        return False
    return int("".join(str(int(character, 36)) for character in packed[4:] + packed[:4])) % 97 == 1


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_CHECKSUM_BYTES = 4


def is_base58(text: str) -> bool:
    """Return whether text in base 58 ends with a Bitcoin key's checksum: the double SHA-256 of the rest."""
    number = 0
    for character in text:
        number = number * 58 + _BASE58.index(character)
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    digest = sha256(sha256(data[:-_CHECKSUM_BYTES]).digest()).digest()
    return data[-_CHECKSUM_BYTES:] == digest[:_CHECKSUM_BYTES]
