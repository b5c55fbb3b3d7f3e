import { mkdir } from "node:fs/promises"
import { type Namespace, startDaemon, waitFor } from "../lab/mod.ts"

type Host = Pick<Namespace, "exec" | "tryExec" | "commandLine">

/** The directories of the system bus and of firewalld, which are private to each host. */
const privateDirectories = ["/run/dbus", "/etc/firewalld"] as const

/** The same file as `/var/run/dbus/system_bus_socket`, the default. */
const busPath = "/run/dbus/system_bus_socket"

/** The configuration of a bus: the host's programs may own any name and call any method, and others have no access. */
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

/** Starts a bus on the host where programs expect the system bus. The bus ends with the host. */
export async function startBus(host: Host): Promise<void> {
  for (const directory of privateDirectories) {
    await mkdir(directory, { recursive: true }) // creates only an empty directory on the machine, as mount point
    await host.exec("mkdir", ["-p", directory]) // where /run is the host's own
    await host.exec("mount", ["-t", "tmpfs", "-o", "mode=755", "cni-test", directory])
  }
  await host.exec("tee", ["/run/dbus/bus.conf"], { input: busConfiguration })
  await startDaemon(host.commandLine(["dbus-daemon", "--config-file=/run/dbus/bus.conf", "--nofork", "--nopidfile"]))
  await waitFor(() => host.exec("test", ["-S", busPath]), "the bus to listen")
}

/**
 * Starts firewalld with Debian's zones on the host, and waits until firewalld answers. firewalld ends with the host.
 */
export async function startFirewalld(host: Host): Promise<void> {
  await startBus(host)
  await runFirewalld(host)
}

/** Starts firewalld on a host that has a bus. */
export async function runFirewalld(host: Host): Promise<void> {
  await startDaemon(host.commandLine(["firewalld", "--nofork", "--nopid", "--log-file", "/run/dbus/firewalld.log"]))
  await waitFor(() => host.exec("firewall-cmd", ["--state"]), "firewalld to run")
}

/** Returns the process ID of firewalld, from its connection to the bus. */
export async function firewalldPid(host: Host): Promise<number> {
  const method = ["org.freedesktop.DBus.GetConnectionUnixProcessID", "string:org.fedoraproject.FirewallD1"]
  const ask = ["--system", "--print-reply=literal", "--dest=org.freedesktop.DBus", "/org/freedesktop/DBus", ...method]
  const { stdout } = await host.exec("dbus-send", ask)
  return Number(/uint32 (\d+)/.exec(stdout)?.[1])
}

/** Stops firewalld, which deletes its rules. */
export async function stopFirewalld(host: Host): Promise<void> {
  process.kill(await firewalldPid(host), "SIGTERM")
  await waitFor(async () => (await host.tryExec("firewall-cmd", ["--state"])).exitCode !== 0, "firewalld to end")
}

/** Returns the sources of a zone from firewall-cmd. */
export async function sourcesIn(host: Host, zone = "trusted"): Promise<string[]> {
  const { stdout } = await host.exec("firewall-cmd", [`--zone=${zone}`, "--list-sources"])
  return stdout.trim().split(/\s+/).filter(Boolean).sort()
}
