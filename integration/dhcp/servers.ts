import { mkdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Namespace } from "../lab/mod.ts"
import { Running } from "./running.ts"

/** A DHCP server of another implementation: what it has written, and its file of leases. */
export interface Server extends AsyncDisposable {
  readonly running: Running
  /** The file of leases, as the server writes it. */
  leases(): Promise<string>
}

/**
 * dnsmasq, for the network 10.1.2.0/24 with addresses from 10.1.2.50 on, or as the options say. Its shortest lease is two
 * minutes.
 */
export async function startDnsmasq(
  where: Namespace,
  directory: string,
  options: readonly string[] = [
    "--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m",
    "--dhcp-option=option:router,10.1.2.1",
  ],
): Promise<Server> {
  const file = join(directory, "dnsmasq.leases")
  const fixed = ["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=eth0", "--bind-interfaces"]
  const log = ["--log-facility=-", "--log-dhcp", "--pid-file=", "--user=root", "--no-ping", "--dhcp-authoritative"]
  const command = ["dnsmasq", ...fixed, ...log, `--dhcp-leasefile=${file}`, ...options]
  return serverOf(await Running.start(where, command, /bound exclusively to interface/), file)
}

/** What a subnet of `dhcpd` gives out. */
export interface Subnet {
  /** First and last address. */
  readonly range?: readonly [string, string]
  readonly leaseSeconds?: number
  /** More lines of the subnet's declaration. */
  readonly more?: readonly string[]
}

/** ISC's dhcpd for 10.1.2.0/24, which leases for seconds; called again with the same directory, it goes on with its leases. */
export async function startDhcpd(where: Namespace, directory: string, subnet: Subnet = {}): Promise<Server> {
  const { range = ["10.1.2.50", "10.1.2.60"], leaseSeconds = 4, more = ["option routers 10.1.2.1;"] } = subnet
  const config = `
    authoritative;
    ping-check off;
    dhcp-cache-threshold 0;
    default-lease-time ${leaseSeconds};
    min-lease-time ${leaseSeconds};
    max-lease-time ${leaseSeconds};
    subnet 10.1.2.0 netmask 255.255.255.0 {
      range ${range.join(" ")};
      ${more.join("\n      ")}
    }`
  return startIsc(where, directory, "4", config)
}

/** ISC's dhcpd for DHCPv6 in 2001:db8:2::/64. */
export async function startDhcpd6(where: Namespace, directory: string, seconds: number): Promise<Server> {
  const config = `
    authoritative;
    preferred-lifetime ${seconds};
    default-lease-time ${seconds};
    option dhcp-renewal-time ${Math.ceil(seconds / 2)};
    option dhcp-rebinding-time ${Math.ceil(seconds * 0.8)};
    subnet6 2001:db8:2::/64 { range6 2001:db8:2::50 2001:db8:2::60; }`
  return startIsc(where, directory, "6", config)
}

async function startIsc(where: Namespace, directory: string, family: "4" | "6", config: string): Promise<Server> {
  const path = (name: string) => join(directory, `dhcpd${family}.${name}`)
  await mkdir(directory, { recursive: true })
  await writeFile(path("conf"), config)
  await writeFile(path("leases"), "", { flag: "a" })
  const files = ["-cf", path("conf"), "-lf", path("leases"), "--no-pid"]
  const command = ["dhcpd", `-${family}`, "-d", ...files, "eth0"]
  return serverOf(await Running.start(where, command, /Server starting service/), path("leases"))
}

function serverOf(running: Running, file: string): Server {
  return {
    running,
    leases: () => readFile(file, "utf8"),
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  }
}
