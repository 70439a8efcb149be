"""Pictures with a palette of 256 colors: a third of the size, and text and areas look the same."""

import base64
import struct
import zlib

from playwright.async_api import Page

# The browser counts: it has the pixels at hand. What is no color of the palette becomes its nearest one.
_INDEXED = """async (data) => {
  const image = new Image();
  image.src = `data:image/png;base64,${data}`;
  await image.decode();
  const {width, height} = image;
  const canvas = Object.assign(document.createElement("canvas"), {width, height});
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const palette = [...counts].sort((one, other) => other[1] - one[1]).slice(0, 256).map(([pixel]) => pixel);
  const channels = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  const known = palette.map(channels);
  const places = new Map(palette.map((pixel, place) => [pixel, place]));
  const nearest = (pixel) => {
    const from = channels(pixel);
    const far = known.map((each) => each.reduce((sum, value, at) => sum + (value - from[at]) ** 2, 0));
    return far.indexOf(Math.min(...far));
  };
  for (const pixel of counts.keys()) if (!places.has(pixel)) places.set(pixel, nearest(pixel));
  const indexed = Uint8Array.from(pixels, (pixel) => places.get(pixel));
  let text = "";
  for (let at = 0; at < indexed.length; at += 8192) {
    text += String.fromCharCode(...indexed.subarray(at, at + 8192));
  }
  return {width, height, palette: known.flat(), pixels: btoa(text)};
}"""


async def with_palette(page: Page, png: bytes) -> bytes:
    """The same picture as an indexed PNG. `page` is one without a Content-Security-Policy."""
    found = await page.evaluate(_INDEXED, base64.b64encode(png).decode())
    width, height, pixels = found["width"], found["height"], base64.b64decode(found["pixels"])
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, len(pixels), width))
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(found["palette"])),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
