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
"""The permutation of digits at each place; it repeats after eight places."""


_NO_DIGIT = re.compile(r"[^0-9]")
_NO_SIGN = re.compile(r"[^0-9A-Za-z]")
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_CARD_PREFIXES = (
    # first prefix, last prefix (both have the same number of digits), lengths
    (4, 4, (13, 16, 19)),  # Visa
    (51, 55, (16,)),  # Mastercard
    (2221, 2720, (16,)),
    (34, 34, (15,)),  # American Express
    (37, 37, (15,)),
    (300, 305, (14, 16)),  # Diners Club
    (36, 36, (14,)),
    (38, 39, (14, 16)),
    (6011, 6011, (16, 19)),  # Discover
    (644, 659, (16, 19)),
    (3528, 3589, (16, 19)),  # JCB
    (62, 62, (16, 17, 18, 19)),  # UnionPay
    (50, 50, (16, 19)),  # Maestro
    (56, 58, (16, 19)),
    (6304, 6304, (16, 19)),
    (67, 67, (16, 19)),
)


def digits_of(text: str) -> list[int]:
    """Return the digits of a text, ignoring everything between them."""
    return [int(digit) for digit in _NO_DIGIT.sub("", text)]


def is_card(text: str) -> bool:
    """Check a card number (ISO/IEC 7812): the issuer's prefix, the length, and the Luhn digit."""
    digits = digits_of(text)
    return _issued("".join(map(str, digits))) and luhn(digits)


def _issued(digits: str) -> bool:
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


def is_ssn(text: str) -> bool:
    """Check a US number: area not 000, 666 or 900 and above, group not 00, serial not 0000."""
    area, group, serial = text[:3], text[4:6], text[7:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def is_nino(text: str) -> bool:
    """Check a UK number: its prefix is not one of those that are never issued."""
    return text[:2] not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ")


def is_german_tax_id(text: str) -> bool:
    """Check a German number: one of the first ten digits occurs two or three times; ISO 7064 MOD 11,10."""
    digits = digits_of(text)
    counts = sorted(digits[:10].count(digit) for digit in set(digits[:10]))
    if counts[-1] not in (2, 3) or counts[-2] != 1:
        return False
    product = 10
    for digit in digits[:10]:
        product = ((digit + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == digits[10]


def is_nir(text: str) -> bool:
    """Return whether the text is a valid French social security number (NIR).

    Its last two digits are 97 minus the rest modulo 97; 2A and 2B count as 19 and 18.
    """
    packed = text.replace(" ", "").replace("2A", "19").replace("2B", "18")
    return 97 - int(packed[:13]) % 97 == int(packed[13:])


def is_dni(text: str) -> bool:
    """Check a Spanish number: the letter for the number modulo 23; a leading X, Y or Z is 0, 1 or 2."""
    packed = text.replace("-", "").upper()
    number = packed[:-1].translate(str.maketrans("XYZ", "012"))
    return _DNI_LETTERS[int(number) % 23] == packed[-1]


def is_bsn(text: str) -> bool:
    """Check a Dutch number: the weighted sum, with -1 for the last digit, is a multiple of 11."""
    digits = digits_of(text)
    return any(digits) and (sum(d * (9 - i) for i, d in enumerate(digits[:8])) - digits[8]) % 11 == 0


def is_aadhaar(text: str) -> bool:
    """Check an Indian number: the Verhoeff digit."""
    check = 0
    for place, digit in enumerate(reversed(digits_of(text))):
        check = VERHOEFF_PRODUCT[check][VERHOEFF_PERMUTED[place % 8][digit]]
    return check == 0


def is_cpf(text: str) -> bool:
    """Check a Brazilian number: two digits modulo 11. Eleven equal digits are never issued."""
    digits = digits_of(text)
    if len(set(digits)) == 1:
        return False
    return all(_cpf_digit(digits[:count]) == digits[count] for count in (9, 10))


def _cpf_digit(digits: list[int]) -> int:
    weighted = sum(
        digit * weight for digit, weight in zip(digits, range(len(digits) + 1, 1, -1), strict=True)
    )
    return weighted * 10 % 11 % 10


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
