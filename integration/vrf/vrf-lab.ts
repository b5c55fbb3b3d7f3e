import {
  Attachment,
  type ContainerNamespace,
  HostNamespace,
  newest,
  type PluginResult,
  waitForLocalRoutes,
} from "../lab/mod.ts"

/** Returns a bridge network of both families, with default routes. Network 1 has 10.1.0.0/16 and fd00:1::/64. */
export function bridgeOf(number: number, keys: object = {}): Record<string, unknown> {
  const ranges = [[{ subnet: `10.${number}.0.0/16` }], [{ subnet: `fd00:${number}::/64` }]]
  const ipam = { type: "host-local", ranges, routes: [{ dst: `10.99.${number}.0/24` }] }
  return {
    cniVersion: newest,
    name: `net${number}`,
    type: "bridge",
    bridge: `br-${number}`,
    isDefaultGateway: true,
    ipam,
    ...keys,
  }
}

/** An attachment of bridge, and the attachment of vrf that follows. */
export interface Chained {
  readonly ifName: string
  readonly maker: Attachment
  readonly prevResult: PluginResult
  readonly vrf: Attachment
}

export class VrfHost implements AsyncDisposable {
  readonly host: HostNamespace
  readonly pod: ContainerNamespace

  private constructor(host: HostNamespace, pod: ContainerNamespace) {
    this.host = host
    this.pod = pod
  }

  static async create(): Promise<VrfHost> {
    const host = await HostNamespace.create()
    return new VrfHost(host, await host.addContainer())
  }

  /** Attaches the container to network `number`, and returns an attachment of vrf for the interface. */
  async attach(number: number, keys: object = {}, ifName = `eth${number}`): Promise<Chained> {
    const maker = new Attachment(this.host, this.pod, bridgeOf(number), { ifName })
    const prevResult = await maker.add()
    await waitForLocalRoutes(
      this.pod,
      prevResult.ips.map(({ address }) => address),
    )
    const config = { cniVersion: newest, name: `net${number}`, type: "vrf", vrfname: "red", prevResult, ...keys }
    return { ifName, maker, prevResult, vrf: new Attachment(this.host, this.pod, config, { ifName }) }
  }

  /** Returns the output of `ip` for the container, without numbers and times of the kernel. */
  async describe(): Promise<string[]> {
    const shown = ["-4 rule", "-6 rule", "-4 route show table all", "-6 route show table all", "-br address"]
    const texts = await Promise.all(shown.map((words) => this.pod.exec("ip", words.split(" "))))
    const lines = texts.flatMap(({ stdout }) => stdout.split("\n")).map((line) => line.replace(/\s+/g, " ").trim())
    // Omits link-local addresses and their routes, which the kernel adds with a delay.
    return lines
      .filter((line) => line !== "" && !/^(local|anycast) fe80::|^multicast ff00/.test(line))
      .map(bare)
      .sort()
  }

  /** Returns the master of a link and, for a VRF, its table. Returns undefined if the link does not exist. */
  async link(name: string): Promise<{ master: string | undefined; table: number | undefined } | undefined> {
    const { exitCode, stdout } = await this.pod.tryExec("ip", ["-d", "-j", "link", "show", name])
    if (exitCode !== 0) return undefined
    const [{ master, linkinfo }] = JSON.parse(stdout)
    return { master, table: linkinfo?.info_data?.table }
  }

  /** Returns the unicast routes of a table, as "DESTINATION [GATEWAY] LINK". */
  async routes(table: number | "main"): Promise<string[]> {
    const found = await Promise.all(
      ["-4", "-6"].map(async (family) => {
        const shown = await this.pod.tryExec("ip", [family, "-j", "route", "show", "table", String(table)])
        return shown.exitCode === 0 ? (JSON.parse(shown.stdout) as ShownRoute[]).flatMap(hopsOf) : []
      }),
    )
    const unicast = found.flat().filter(({ type = "unicast" }) => type === "unicast")
    return unicast.map(({ dst, gateway = "", dev }) => `${dst} ${gateway} ${dev}`.replace("  ", " ")).sort()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** A route in the output of `ip -j route`. An IPv6 default route over several links may have several next hops. */
interface ShownRoute {
  dst: string
  type?: string
  gateway?: string
  dev?: string
  nexthops?: ShownRoute[]
}

function hopsOf({ nexthops, ...route }: ShownRoute): ShownRoute[] {
  return nexthops?.map((hop) => ({ ...route, ...hop, dst: route.dst })) ?? [route]
}

function bare(line: string): string {
  return line
    .replace(/ fe80::\S+\/64/, "")
    .replace(/@if\d+/, "")
    .replace(/ linkdown/, "")
    .trim()
}

/** Returns the routes of the interface on the network with this number, except default and the kernel's own. */
export function routesOn(number: number, ifName = `eth${number}`): string[] {
  return [
    `10.${number}.0.0/16 ${ifName}`,
    `10.99.${number}.0/24 10.${number}.0.1 ${ifName}`,
    `default 10.${number}.0.1 ${ifName}`,
    `default fd00:${number}::1 ${ifName}`,
    `fd00:${number}::/64 ${ifName}`,
    `fe80::/64 ${ifName}`,
  ].sort()
}
