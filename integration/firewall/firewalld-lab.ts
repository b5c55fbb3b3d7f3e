import { mkdir } from "node:fs/promises"
import { type Namespace, startDaemon, waitFor } from "../lab/mod.ts"

/** A host with its own files. */
type Host = Pick<Namespace, "exec" | "tryExec" | "commandLine">

/** The path of the system bus, and firewalld's directories; each host has its own. */
const privateDirectories = ["/run/dbus", "/etc/firewalld"] as const

/** The default, `/var/run/dbus/system_bus_socket`, is the same. */
const busPath = "/run/dbus/system_bus_socket"

/** A bus on which the host's programs may own any name and call any method. Other programs have no access. */
const busConfiguration = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=${busPath}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
`

/** Starts a bus on the host where programs look for the system's. It ends with the host. */
export async function startBus(host: Host): Promise<void> {
  for (const directory of privateDirectories) {
    await mkdir(directory, { recursive: true }) // an empty directory to mount on is all the machine gets
    await host.exec("mkdir", ["-p", directory]) // where its /run is another one
    await host.exec("mount", ["-t", "tmpfs", "-o", "mode=755", "cni-test", directory])
  }
  await host.exec("tee", ["/run/dbus/bus.conf"], { input: busConfiguration })
  await startDaemon(host.commandLine(["dbus-daemon", "--config-file=/run/dbus/bus.conf", "--nofork", "--nopidfile"]))
  await waitFor(() => host.exec("test", ["-S", busPath]), "the bus to listen")
}

/** Starts firewalld on the host, with Debian's zones, and waits until it answers. It ends with the host. */
export async function startFirewalld(host: Host): Promise<void> {
  await startBus(host)
  await runFirewalld(host)
}

/** Starts firewalld on a host that has a bus. */
export async function runFirewalld(host: Host): Promise<void> {
  await startDaemon(host.commandLine(["firewalld", "--nofork", "--nopid", "--log-file", "/run/dbus/firewalld.log"]))
  await waitFor(() => host.exec("firewall-cmd", ["--state"]), "firewalld to run")
}

/** The number of firewalld's process, by its connection to the bus. */
export async function firewalldPid(host: Host): Promise<number> {
  const method = ["org.freedesktop.DBus.GetConnectionUnixProcessID", "string:org.fedoraproject.FirewallD1"]
  const ask = ["--system", "--print-reply=literal", "--dest=org.freedesktop.DBus", "/org/freedesktop/DBus", ...method]
  const { stdout } = await host.exec("dbus-send", ask)
  return Number(/uint32 (\d+)/.exec(stdout)?.[1])
}

/** Ends firewalld, which takes its rules along. */
export async function stopFirewalld(host: Host): Promise<void> {
  process.kill(await firewalldPid(host), "SIGTERM")
  await waitFor(async () => (await host.tryExec("firewall-cmd", ["--state"])).exitCode !== 0, "firewalld to end")
}

/** The sources of a zone, as firewalld's own tool lists them. */
export async function sourcesIn(host: Host, zone = "trusted"): Promise<string[]> {
  const { stdout } = await host.exec("firewall-cmd", [`--zone=${zone}`, "--list-sources"])
  return stdout.trim().split(/\s+/).filter(Boolean).sort()
}
