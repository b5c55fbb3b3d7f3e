import { type Fields, type Infer, invalidConfig, isCleanup, type KeyDoc, parseConfig } from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { type Cidr, CniError, Code, type NetworkConfig, networkOf, parseCidr } from "../../pkg/types/mod.ts"
import { defaultBurst, type Limit, MAX_U32 } from "./limit.ts"
import { expectedBurst, expectedRate, parseBurst, parseRate } from "./units.ts"

const rate = { kind: "quantity", expected: expectedRate, read: parseRate } as const
const burst = { kind: "quantity", expected: expectedBurst, read: parseBurst } as const
const subnets = {
  kind: "list",
  of: { kind: "text", expected: "a subnet", check: parseCidr, form: "a subnet such as 10.1.0.0/16 or fd00:1::/64" },
} as const

/** The keys that are allowed both at the top and in `runtimeConfig.bandwidth`. */
const entry = {
  ingressRate: rate,
  ingressBurst: burst,
  egressRate: rate,
  egressBurst: burst,
  shapedSubnets: subnets,
  unshapedSubnets: subnets,
} as const satisfies Fields

export const bandwidthFields = {
  ...entry,
  shapeIn: { kind: "choice", of: ["host", "container"], expected: '"host" or "container"' },
  runtimeConfig: { kind: "object", fields: { bandwidth: { kind: "object", fields: entry } } },
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const bandwidthKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["ingressRate", "egressRate"],
    default: "0: no limit",
    meaning: "rate towards and from the container: bits per second, or text with a unit",
  },
  {
    paths: ["ingressBurst", "egressBurst"],
    default: "20 ms at the rate, at least 32 KiB",
    meaning: "largest burst: bits, or text with a unit; less than 4 GiB",
  },
  { paths: ["shapedSubnets"], default: "none", meaning: "only traffic with peers in these subnets is limited" },
  { paths: ["unshapedSubnets"], default: "none", meaning: "traffic with peers in these subnets is not limited" },
  {
    paths: ["shapeIn"],
    default: "`host` for a veth whose other end is on the host, otherwise `container`",
    meaning: "the side of the limits: `host` or `container`",
  },
  {
    paths: [
      "runtimeConfig.bandwidth",
      "runtimeConfig.bandwidth.ingressRate",
      "runtimeConfig.bandwidth.ingressBurst",
      "runtimeConfig.bandwidth.egressRate",
      "runtimeConfig.bandwidth.egressBurst",
      "runtimeConfig.bandwidth.shapedSubnets",
      "runtimeConfig.bandwidth.unshapedSubnets",
    ],
    default: "none",
    meaning: "the same keys from the runtime, for the capability `bandwidth`",
  },
]

type Entry = Infer<typeof entry>

/** Subnets of peers. If `areShaped`, only traffic with these subnets is limited; if not, only all other traffic. */
export interface Subnets {
  areShaped: boolean
  list: readonly Cidr[]
}

export type BandwidthConfig = ReturnType<typeof parseBandwidthConfig>

/** The bursts in bits that the runtimes containerd and dockershim use for "no limit". */
const unlimitedBursts = [2 ** 32 - 1, 2 ** 31 - 1]

/**
 * Parses the configuration. If it has a limit, ignores the limits of the runtime. Zero means no limit. For DEL and GC,
 * ignores invalid values; otherwise throws code 7 that names the key.
 */
export function parseBandwidthConfig(_network: NetworkConfig, { verb, raw }: ConfigCall) {
  const lenient = isCleanup(verb)
  const { shapeIn, runtimeConfig, ...top } = parseConfig(bandwidthFields, raw, lenient)
  if (lenient) return { ingress: undefined, egress: undefined, subnets: undefined, shapeIn }
  const chosen = hasLimit(top) ? top : withoutUnlimited(runtimeConfig?.bandwidth ?? {})
  return {
    ingress: limitOf(chosen, "ingressRate", "ingressBurst"),
    egress: limitOf(chosen, "egressRate", "egressBurst"),
    /** Undefined if traffic with every peer is limited. */
    subnets: subnetsOf(chosen) ?? subnetsOf(top),
    /** The end of a veth pair to limit. If undefined, the host's end is limited if there is one. */
    shapeIn,
  }
}

function hasLimit({ ingressRate, ingressBurst, egressRate, egressBurst }: Entry): boolean {
  return Boolean(ingressRate || ingressBurst || egressRate || egressBurst)
}

function withoutUnlimited({ ingressBurst = 0, egressBurst = 0, ...rest }: Entry): Entry {
  const isReal = (bits: number) => !unlimitedBursts.includes(bits)
  return {
    ...rest,
    ...(isReal(ingressBurst) ? { ingressBurst } : {}),
    ...(isReal(egressBurst) ? { egressBurst } : {}),
  }
}

/** Returns the limit of one direction. Errors have upstream's wording if upstream has such an error. */
function limitOf(
  entry: Entry,
  rateKey: "ingressRate" | "egressRate",
  burstKey: "ingressBurst" | "egressBurst",
): Limit | undefined {
  const rate = entry[rateKey] || undefined
  const burst = entry[burstKey] || undefined
  if (rate === undefined && burst === undefined) return undefined
  if (rate === undefined) {
    throw new CniError(Code.InvalidNetworkConfig, "if burst is set, rate must also be set", {
      details: `"${burstKey}" is set, but "${rateKey}" is missing or 0`,
    })
  }
  if (rate < 8) throw invalidConfig(rateKey, "8 bits per second or more", rate)
  const bytesPerSecond = Math.trunc(rate / 8)
  if (burst === undefined) return { rate: bytesPerSecond, burst: defaultBurst(bytesPerSecond) }
  if (burst < 8) throw invalidConfig(burstKey, "8 bits or more", burst)
  const bytes = Math.trunc(burst / 8)
  if (bytes < MAX_U32) return { rate: bytesPerSecond, burst: bytes }
  throw new CniError(Code.InvalidNetworkConfig, "burst cannot be more than 4GB", {
    details: `"${burstKey}" is ${burst} bits`,
  })
}

function subnetsOf({ shapedSubnets = [], unshapedSubnets = [] }: Entry): Subnets | undefined {
  if (shapedSubnets.length > 0 && unshapedSubnets.length > 0) {
    throw new CniError(
      Code.InvalidNetworkConfig,
      'Cannot use "shapedSubnets" and "unshapedSubnets" together: set only one of them',
    )
  }
  const areShaped = shapedSubnets.length > 0
  const list = (areShaped ? shapedSubnets : unshapedSubnets).flatMap((text) => parseCidr(text) ?? [])
  if (list.length === 0) return undefined
  return { areShaped, list: list.map(({ ip, prefix }) => ({ ip: networkOf({ ip, prefix }), prefix })) }
}
