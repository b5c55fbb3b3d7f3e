import fc from "fast-check"

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** The paths of the plugins and of two containers' namespaces on the driver's host. */
export const place = { bin: "/run/cni/bin", pods: ["/run/cni/pod1", "/run/cni/pod2"] } as const

/** The versions of the specification. */
export const versions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
/** Valid addresses and texts that resemble an address. */
export const addresses = [
  "10.1.2.3 10.1.2.3/24 10.1.2.3/33 010.1.1.1 1.2.3 1.2.3.4.5 300.1.1.1/8 10.1.0.0/16 0.0.0.0/0",
  "::1 fd00::/64 fd00:0:0::5/64 ::ffff:1.2.3.4 fe80::1%eth0 1:2:3:4:5:6:7:8:9 ::/0 FD00::ABCD 1::2::3 /",
].flatMap((line) => line.split(" "))
/** Texts that are hard to parse. */
export const words = [
  ...[
    "",
    "x",
    " ",
    "eth0",
    "lo",
    "..",
    ".",
    "a/b",
    "lab",
    "x".repeat(15),
    "x".repeat(16),
    "x".repeat(300),
    "é☃😀",
    "\ud800",
    "a\0b",
    "\x7f\x1b",
  ],
  ...[
    "<&>\u2028",
    "__proto__",
    "constructor",
    "toString",
    "true",
    "1",
    "1.1.0",
    "9.9.9",
    "1.1",
    "v1.0.0",
    "İı",
    "ſ",
    "ß",
    "\ufeffx",
    "\\",
    '"',
  ],
  ...[
    "0a:00:00:00:00:01",
    "0A-00-00-00-00-01",
    "0a:00",
    "host-local",
    "static",
    "bridge",
    "absent",
    "../bridge",
    "nftables",
    "iptables",
  ],
]
const numbers = [
  0,
  1,
  -1,
  1.5,
  -0,
  42,
  1500,
  4094,
  4095,
  65535,
  65536,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  1e21,
  1e-7,
  5e-324,
  1e300,
]

/** A generator of values of unexpected types. */
export const odd: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom<Json>(null, true, false, [], {}, [null], [[]], [{}], { x: null }),
  fc.constantFrom<Json>(...numbers),
  fc.constantFrom<Json>(...words),
  fc.constantFrom<Json>(...addresses),
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.jsonValue({ noUnicodeString: false, maxDepth: 2 }) as fc.Arbitrary<Json>,
)
