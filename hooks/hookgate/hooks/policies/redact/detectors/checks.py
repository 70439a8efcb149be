"""Checks that tell a genuine number from digits that look like one. Each takes the text as it was found."""

import re

from hookgate.hooks.policies.redact.detectors.tables import IBAN_LENGTHS, VERHOEFF_PERMUTED, VERHOEFF_PRODUCT

_NO_DIGIT = re.compile(r"[^0-9]")
_NO_SIGN = re.compile(r"[^0-9A-Za-z]")
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_CARD_PREFIXES = (
    # prefixes from, to (their digits tell how many count), lengths
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
    """Its digits, whatever stands between them."""
    return [int(digit) for digit in _NO_DIGIT.sub("", text)]


def is_card(text: str) -> bool:
    """ISO/IEC 7812: an issuer's prefix with a length it issues, and the Luhn digit."""
    digits = digits_of(text)
    return _issued("".join(map(str, digits))) and luhn(digits)


def _issued(digits: str) -> bool:
    return any(
        first <= int(digits[: len(str(first))]) <= last and len(digits) in lengths
        for first, last, lengths in _CARD_PREFIXES
    )


def luhn(digits: list[int]) -> bool:
    """ISO/IEC 7812-1 annex B."""
    doubled = [
        digit if place % 2 == 0 else (digit * 2 - 1) % 9 + 1 if digit else 0
        for place, digit in enumerate(reversed(digits))
    ]
    return sum(doubled) % 10 == 0


def is_iban(text: str) -> bool:
    """ISO 13616: the length of its country, and a remainder of 1 modulo 97."""
    packed = _NO_SIGN.sub("", text).upper()
    if IBAN_LENGTHS.get(packed[:2]) != len(packed):
        return False
    return int("".join(str(int(character, 36)) for character in packed[4:] + packed[:4])) % 97 == 1


def is_ssn(text: str) -> bool:
    """United States: area not 000, 666 or from 900 on, group not 00, serial not 0000."""
    area, group, serial = text[:3], text[4:6], text[7:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def is_nino(text: str) -> bool:
    """United Kingdom: not one of the prefixes that are never issued."""
    return text[:2] not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ")


def is_german_tax_id(text: str) -> bool:
    """Germany: one of the first ten digits comes twice or three times; the ISO 7064 MOD 11,10 digit."""
    digits = digits_of(text)
    often = sorted(digits[:10].count(digit) for digit in set(digits[:10]))
    if often[-1] not in (2, 3) or often[-2] != 1:
        return False
    product = 10
    for digit in digits[:10]:
        product = ((digit + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == digits[10]


def is_nir(text: str) -> bool:
    """France: the key is 97 less the number modulo 97, with Corsica's 2A and 2B read as 19 and 18."""
    packed = text.replace(" ", "").replace("2A", "19").replace("2B", "18")
    return 97 - int(packed[:13]) % 97 == int(packed[13:])


def is_dni(text: str) -> bool:
    """Spain: the letter of the number modulo 23; in a foreigner's number X, Y and Z stand for 0, 1 and 2."""
    packed = text.replace("-", "").upper()
    number = packed[:-1].translate(str.maketrans("XYZ", "012"))
    return _DNI_LETTERS[int(number) % 23] == packed[-1]


def is_bsn(text: str) -> bool:
    """Netherlands: the weighted sum, the last digit counting -1, is a multiple of 11."""
    digits = digits_of(text)
    return any(digits) and (sum(d * (9 - i) for i, d in enumerate(digits[:8])) - digits[8]) % 11 == 0


def is_aadhaar(text: str) -> bool:
    """India: the Verhoeff digit."""
    check = 0
    for place, digit in enumerate(reversed(digits_of(text))):
        check = VERHOEFF_PRODUCT[check][VERHOEFF_PERMUTED[place % 8][digit]]
    return check == 0


def is_cpf(text: str) -> bool:
    """Brazil: two digits modulo 11; eleven equal digits pass the sums but are never issued."""
    digits = digits_of(text)
    if len(set(digits)) == 1:
        return False
    return all(_cpf_digit(digits[:count]) == digits[count] for count in (9, 10))


def _cpf_digit(digits: list[int]) -> int:
    weighted = sum(
        digit * weight for digit, weight in zip(digits, range(len(digits) + 1, 1, -1), strict=True)
    )
    return weighted * 10 % 11 % 10
