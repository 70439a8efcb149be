"""Checks of national identification numbers: their check digits, dates and prefixes."""

import re
from collections.abc import Sequence

from hookgate.hooks.policies.redact.detectors.checks import digits_of, luhn

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
    return _has_mod_11_10(digits)


def _has_mod_11_10(digits: Sequence[int]) -> bool:
    """Return whether the last of eleven digits is that of ISO 7064 MOD 11,10."""
    product = 10
    for digit in digits[:10]:
        product = ((digit + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == digits[10]


def is_nir(text: str) -> bool:
    """Check a French number: two digits are 97 minus the rest modulo 97; 2A and 2B count as 19 and 18."""
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
    return (
        len(digits) == 9
        and any(digits)
        and (sum(d * (9 - i) for i, d in enumerate(digits[:8])) - digits[8]) % 11 == 0
    )


def is_aadhaar(text: str) -> bool:
    """Check an Indian number: twelve digits, of which the last is that of Verhoeff's scheme."""
    digits = digits_of(text)
    check = 0
    for place, digit in enumerate(reversed(digits)):
        check = VERHOEFF_PRODUCT[check][VERHOEFF_PERMUTED[place % 8][digit]]
    return len(digits) == 12 and digits[0] > 1 and check == 0


def is_cpf(text: str) -> bool:
    """Check a Brazilian number: two digits modulo 11. Eleven equal digits are never issued."""
    digits = digits_of(text)
    if len(digits) != 11 or len(set(digits)) == 1:
        return False
    return all(_cpf_digit(digits[:count]) == digits[count] for count in (9, 10))


def _cpf_digit(digits: list[int]) -> int:
    weighted = sum(
        digit * weight for digit, weight in zip(digits, range(len(digits) + 1, 1, -1), strict=True)
    )
    return weighted * 10 % 11 % 10


def _is_date(month: str, day: str) -> bool:
    return 1 <= int(month) <= 12 and 1 <= int(day) <= 31


def _weighted(digits: Sequence[int], weights: Sequence[int]) -> int:
    """Return the sum of the products of digits and weights, of which there are as many."""
    return sum(digit * weight for digit, weight in zip(digits, weights, strict=True))


def is_itin(text: str) -> bool:
    """Check a US taxpayer's number: its fourth and fifth digits are among those that are issued."""
    group = int(text[4:6])
    return 50 <= group <= 65 or 70 <= group <= 88 or 90 <= group <= 92 or 94 <= group <= 99


def is_nine_digit_ssn(text: str) -> bool:
    """Check a US number without dashes: the same area, group and serial."""
    digits = _NO_DIGIT.sub("", text)
    return len(digits) == 9 and is_ssn(f"{digits[:3]}-{digits[3:5]}-{digits[5:]}")


def is_sin(text: str) -> bool:
    """Check a Canadian number: nine digits with the Luhn digit; none begins with 0 or 8."""
    digits = digits_of(text)
    return len(digits) == 9 and digits[0] not in (0, 8) and luhn(digits)


_CURP = "0123456789ABCDEFGHIJKLMN\u00d1OPQRSTUVWXYZ"


def is_curp(text: str) -> bool:
    """Check a Mexican number of the population register: its last digit, from the 17 characters before it."""
    total = sum(_CURP.index(character) * (18 - place) for place, character in enumerate(text[:17]))
    return -total % 10 == int(text[17])


_RFC = "0123456789ABCDEFGHIJKLMN&OPQRSTUVWXYZ \u00d1"


def is_rfc(text: str) -> bool:
    """Check the number of a person at the Mexican tax office: the date of birth, and the last character."""
    if not _is_date(text[6:8], text[8:10]):
        return False
    total = sum(_RFC.index(character) * (13 - place) for place, character in enumerate(text[:12]))
    return "0123456789A"[-total % 11] == text[12]


def is_cuil(text: str) -> bool:
    """Check an Argentinian number: the last digit, modulo 11."""
    digits = digits_of(text)
    rest = -_weighted(digits[:10], (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return min(rest, 9) == digits[10]


def is_rut(text: str) -> bool:
    """Check a Chilean number: the last character, modulo 11; K stands for ten."""
    packed = _NO_SIGN.sub("", text).upper()
    total = sum(int(digit) * (place % 6 + 2) for place, digit in enumerate(reversed(packed[:-1])))
    return "0123456789K"[-total % 11] == packed[-1]


def is_nhs_number(text: str) -> bool:
    """Check a number of the British health service: ten digits, of which the last is that modulo 11."""
    digits = digits_of(text)
    return len(digits) == 10 and any(digits) and _weighted(digits, range(10, 0, -1)) % 11 == 0


def is_german_pension_number(text: str) -> bool:
    """Check a German number: the date of birth, and the last digit from the sum of the digits of products."""
    packed = text.replace(" ", "")
    if not _is_date(packed[4:6], packed[2:4]):
        return False
    letter = f"{ord(packed[8]) - ord('A') + 1:02}"
    digits = [int(digit) for digit in packed[:8] + letter + packed[9:11]]
    products = (
        digit * weight for digit, weight in zip(digits, (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1), strict=True)
    )
    return sum(sum(divmod(product, 10)) for product in products) % 10 == int(packed[11])


_ODD = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
"""The values of A to Z, and of 0 to 9 for the first ten, at odd places of an Italian code."""


def is_codice_fiscale(text: str) -> bool:
    """Check an Italian code: the last letter, from the 15 characters before it."""
    packed = text.upper()
    values = [int(each) if each.isdigit() else ord(each) - ord("A") for each in packed[:15]]
    total = sum(_ODD[value] if place % 2 == 0 else value for place, value in enumerate(values))
    return ord(packed[15]) - ord("A") == total % 26


def is_portuguese_tax_number(text: str) -> bool:
    """Check a Portuguese number: nine digits, of which the last is that modulo 11."""
    digits = digits_of(text)
    if len(digits) != 9 or digits[0] in (0, 4, 7):
        return False
    rest = _weighted(digits[:8], range(9, 1, -1)) % 11
    return digits[8] == (0 if rest < 2 else 11 - rest)


def is_belgian_number(text: str) -> bool:
    """Check a Belgian number: eleven digits, of which two are the rest modulo 97, after a date of birth."""
    digits = _NO_DIGIT.sub("", text)
    if len(digits) != 11 or int(digits[2:4]) % 20 > 12 or int(digits[4:6]) > 31:
        return False
    return any(97 - int(century + digits[:9]) % 97 == int(digits[9:]) for century in ("", "2"))


def is_ahv_number(text: str) -> bool:
    """Check a Swiss number: the last digit, as in EAN-13."""
    digits = digits_of(text)
    return _weighted(digits, (1, 3) * 6 + (1,)) % 10 == 0


def is_austrian_number(text: str) -> bool:
    """Check an Austrian number: ten digits with a date of birth, of which the fourth is that modulo 11."""
    digits = _NO_DIGIT.sub("", text)
    if len(digits) != 10 or not _is_date(digits[6:8], digits[4:6]):
        return False
    others = [int(digit) for digit in digits[:3] + digits[4:]]
    return _weighted(others, (3, 7, 9, 5, 8, 4, 2, 1, 6)) % 11 == int(digits[3])


def is_personnummer(text: str) -> bool:
    """Check a Swedish number: the date of birth, whose day may have 60 added to it, and the Luhn digit."""
    digits = _NO_DIGIT.sub("", text)
    if len(digits) not in (10, 12):
        return False
    last = digits[-10:]
    return _is_date(last[2:4], str(int(last[4:6]) % 60)) and luhn(digits_of(last))


def is_hetu(text: str) -> bool:
    """Check a Finnish number: the date of birth, and the last character, modulo 31."""
    packed = text.upper()
    if not _is_date(packed[2:4], packed[:2]):
        return False
    return "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(packed[:6] + packed[7:10]) % 31] == packed[10]


def is_norwegian_number(text: str) -> bool:
    """Check a Norwegian number: date of birth, whose day may have 40 added, and two digits modulo 11."""
    digits = digits_of(text)
    day, month = digits[0] % 4 * 10 + digits[1], digits[2] % 4 * 10 + digits[3]
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return False
    first = _weighted(digits[:10], (3, 7, 6, 1, 8, 9, 4, 5, 2, 1))
    return first % 11 == 0 and _weighted(digits, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0


def is_cpr(text: str) -> bool:
    """Check a Danish number: ten digits that begin with a date of birth. It has no check digit any more."""
    digits = _NO_DIGIT.sub("", text)
    return len(digits) == 10 and _is_date(digits[2:4], digits[:2])


def is_pesel(text: str) -> bool:
    """Check a Polish number: the date of birth since 1900, and the last digit."""
    digits = digits_of(text)
    month, day = digits[2] % 2 * 10 + digits[3], digits[4] * 10 + digits[5]
    if digits[2] > 3 or not (1 <= month <= 12 and 1 <= day <= 31):
        return False
    return _weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def is_birth_number(text: str) -> bool:
    """Check a Czech or Slovak number with a slash: the date of birth, and the last digit, modulo 11."""
    digits = _NO_DIGIT.sub("", text)
    month = int(digits[2:4]) % 50
    if not _is_date(str(month - 20 if month > 20 else month), digits[4:6]):
        return False
    return int(digits[:9]) % 11 % 10 == int(digits[9])


def is_cnp(text: str) -> bool:
    """Check a Romanian number: 13 digits with a date of birth, of which the last is that modulo 11."""
    digits = _NO_DIGIT.sub("", text)
    if len(digits) != 13 or not _is_date(digits[3:5], digits[5:7]):
        return False
    rest = _weighted(digits_of(digits[:12]), (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    return (1 if rest == 10 else rest) == int(digits[12])


def is_egn(text: str) -> bool:
    """Check a Bulgarian number: ten digits with a date of birth, of which the last is that modulo 11."""
    digits = digits_of(text)
    if len(digits) != 10:
        return False
    return _weighted(digits[:9], (2, 4, 8, 5, 10, 9, 7, 3, 6)) % 11 % 10 == digits[9]


def is_oib(text: str) -> bool:
    """Check a Croatian number: eleven digits, ISO 7064 MOD 11,10."""
    digits = digits_of(text)
    return len(digits) == 11 and _has_mod_11_10(digits)


def is_amka(text: str) -> bool:
    """Check a Greek number: eleven digits with a date of birth, and the Luhn digit."""
    digits = _NO_DIGIT.sub("", text)
    return len(digits) == 11 and _is_date(digits[2:4], digits[:2]) and luhn(digits_of(digits))


def is_turkish_number(text: str) -> bool:
    """Check a Turkish number: eleven digits, of which two are check digits."""
    digits = digits_of(text)
    if len(digits) != 11 or digits[0] == 0:
        return False
    tenth = (7 * sum(digits[0:9:2]) - sum(digits[1:8:2])) % 10
    return digits[9] == tenth and digits[10] == sum(digits[:10]) % 10


def is_pps_number(text: str) -> bool:
    """Check an Irish number: the letter after seven digits, modulo 23; a second one counts nine times."""
    packed = text.upper()
    total = _weighted(digits_of(packed[:7]), range(8, 1, -1))
    if len(packed) == 9:
        total += 9 * (ord(packed[8]) - ord("A") + 1) % 23 if packed[8] != "W" else 0
    return "WABCDEFGHIJKLMNOPQRSTUV"[total % 23] == packed[7]


def is_snils(text: str) -> bool:
    """Check a Russian insurance number: two digits from the sum of the nine before them."""
    digits = digits_of(text)
    return _weighted(digits[:9], range(9, 0, -1)) % 101 % 100 == digits[9] * 10 + digits[10]


def is_inn(text: str) -> bool:
    """Check a person's number at the Russian tax office: twelve digits, of which two are check digits."""
    digits = digits_of(text)
    if len(digits) != 12:
        return False
    weights = (3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)
    return (
        _weighted(digits[:10], weights[1:]) % 11 % 10 == digits[10]
        and _weighted(digits[:11], weights) % 11 % 10 == digits[11]
    )


def is_chinese_number(text: str) -> bool:
    """Check a Chinese number: the date of birth, and ISO 7064 MOD 11-2."""
    digits = digits_of(text[:17])
    check = "10X98765432"[_weighted(digits, (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)) % 11]
    return _is_date(text[10:12], text[12:14]) and check == text[17].upper()


def is_my_number(text: str) -> bool:
    """Check a Japanese number: twelve digits, of which the last is that modulo 11."""
    digits = digits_of(text)
    if len(digits) != 12:
        return False
    rest = _weighted(digits[:11], (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return digits[11] == (0 if rest < 2 else 11 - rest)


def begins_with_date(text: str) -> bool:
    """Check a Korean or Malaysian number: it begins with year, month and day of birth."""
    return _is_date(text[2:4], text[4:6])


_TAIWAN = "ABCDEFGHJKLMNPQRSTUVXYWZIO"


def is_taiwanese_number(text: str) -> bool:
    """Check a Taiwanese number: the letter stands for two digits; the sum is a multiple of ten."""
    tens, ones = divmod(_TAIWAN.index(text[0]) + 10, 10)
    return (tens + ones * 9 + _weighted(digits_of(text[1:]), (8, 7, 6, 5, 4, 3, 2, 1, 1))) % 10 == 0


def is_hong_kong_number(text: str) -> bool:
    """Check a number of Hong Kong: one or two letters, six digits, and a digit or A in parentheses."""
    packed = _NO_SIGN.sub("", text)
    padded = packed.rjust(9)
    values = [36 if each == " " else int(each, 36) for each in padded[:8]]
    return (_weighted(values, range(9, 1, -1)) + int(packed[-1], 11)) % 11 == 0


def is_nric(text: str) -> bool:
    """Check a number of Singapore: the last letter, which depends on the first."""
    total = _weighted(digits_of(text[1:8]), (2, 7, 6, 5, 4, 3, 2))
    letters = {"S": "JZIHGFEDCBA", "T": "GFEDCBAJZIH", "F": "XWUTRQPNMLK", "G": "RQPNMLKXWUT"}
    if text[0] == "M":
        return "XWUTRQPNJLK"[(total + 3) % 11] == text[8]
    return letters[text[0]][total % 11] == text[8]


def is_thai_number(text: str) -> bool:
    """Check a Thai number: 13 digits, of which the last is that modulo 11."""
    digits = digits_of(text)
    return (11 - _weighted(digits[:12], range(13, 1, -1)) % 11) % 10 == digits[12]


def is_israeli_number(text: str) -> bool:
    """Check an Israeli number: nine digits with the Luhn digit."""
    digits = digits_of(text)
    return len(digits) == 9 and any(digits) and luhn(digits)


def is_south_african_number(text: str) -> bool:
    """Check a South African number: date of birth, citizenship, a fixed digit, and the Luhn digit."""
    return begins_with_date(text) and text[10] in "012" and text[11] in "89" and luhn(digits_of(text))


def is_emirates_id(text: str) -> bool:
    """Check a number of the United Arab Emirates: the Luhn digit."""
    return luhn(digits_of(text))


def is_tax_file_number(text: str) -> bool:
    """Check an Australian tax file number: nine digits, whose weighted sum is a multiple of 11."""
    digits = digits_of(text)
    return len(digits) == 9 and any(digits) and _weighted(digits, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def is_medicare_number(text: str) -> bool:
    """Check an Australian Medicare number: ten digits, of which the ninth is that modulo 10."""
    digits = digits_of(text)
    if len(digits) not in (10, 11) or not 2 <= digits[0] <= 6:
        return False
    return _weighted(digits[:8], (1, 3, 7, 9, 1, 3, 7, 9)) % 10 == digits[8]


def is_ird_number(text: str) -> bool:
    """Check a New Zealand tax number: eight or nine digits, of which the last is that modulo 11."""
    digits = digits_of(text)
    if len(digits) not in (8, 9):
        return False
    padded = [0] * (9 - len(digits)) + digits
    for weights in ((3, 2, 7, 6, 5, 4, 3, 2), (7, 4, 3, 2, 5, 2, 7, 6)):
        check = -_weighted(padded[:8], weights) % 11
        if check < 10:
            return check == padded[8]
    return False


def is_nik(text: str) -> bool:
    """Check an Indonesian number: 16 digits with a date of birth, whose day may have 40 added to it."""
    digits = _NO_DIGIT.sub("", text)
    return len(digits) == 16 and _is_date(digits[8:10], str(int(digits[6:8]) % 40))
