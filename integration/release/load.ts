import { readFile } from "node:fs/promises"
import { waitFor } from "../lab/mod.ts"
import type { FreshRoot } from "./fresh-root.ts"

/** The names of the parallel sequences of namespaces. */
const lanes = ["a", "b", "c"]

/** The network of the namespaces. A test can add `ipMasq`, so that each container has masquerading rules. */
const network = {
  cniVersion: "1.0.0", // Debian's Go plugins support it too
  name: "load",
  type: "bridge",
  bridge: "load0",
  isGateway: true,
  ipam: { type: "host-local", ranges: [[{ subnet: "10.98.0.0/24" }]] },
}

/**
 * Runs a plugin's ADD and DEL in turn, like a runtime, until /run/stop exists. $1 is the name of the sequence, $2 the
 * plugins' directory.
 */
const lane = `
export CNI_PATH=$2 CNI_IFNAME=eth0 CNI_NETNS=/run/netns/load-$1
ip netns add load-$1
pods=0
until [ -e /run/stop ]; do
  pods=$((pods + 1))
  for verb in ADD DEL; do
    CNI_CONTAINERID=$1-$pods CNI_COMMAND=$verb "$2/bridge" </run/load.json >/run/said-$1 2>&1 ||
      { echo "$verb of pod $pods ended with $?: $(cat /run/said-$1)" >>/run/failed-$1; }
  done
  echo $pods >/run/pods-$1
done
ip netns delete load-$1
touch /run/ended-$1`

/**
 * A load on the plugins. Three parallel sequences attach and detach namespaces while a test replaces the plugins.
 *
 * @example
 * const load = await Load.start(host, "/usr/lib/cni", { ipMasq: true })
 * await host.follow("apt-get install …")
 * await load.goOn() // pods that came and went since
 * expect(await load.stop()).toEqual([])
 */
export class Load {
  readonly #host: FreshRoot

  private constructor(host: FreshRoot) {
    this.#host = host
  }

  /** Starts a load with the plugins of a directory. `keys` are added to the network's configuration. */
  static async start(host: FreshRoot, binDir: string, keys: object = {}): Promise<Load> {
    await Bun.write(host.file("/run/load.json"), JSON.stringify({ ...network, ...keys }))
    await Bun.write(host.file("/run/lane"), lane)
    for (const name of lanes)
      await host.exec("sh", ["-ec", 'setsid --fork sh /run/lane "$1" "$2" <&- >&- 2>&-', "sh", name, binDir])
    const load = new Load(host)
    await load.goOn()
    return load
  }

  /** Waits until each sequence has completed two more pods, so that at least one started and ended after the call. */
  async goOn(): Promise<void> {
    const pods = () => Promise.all(lanes.map(async (name) => Number(await this.#read(`pods-${name}`))))
    const before = await pods()
    await waitFor(
      async () => (await pods()).every((count, at) => count >= (before[at] ?? 0) + 2),
      "pods that come and go",
    )
  }

  /** Stops all sequences. Returns the failures: the first lines of each sequence. */
  async stop(): Promise<string[]> {
    await Bun.write(this.#host.file("/run/stop"), "")
    await waitFor(
      async () =>
        (await Promise.all(lanes.map((name) => this.#host.tryExec("test", ["-e", `/run/ended-${name}`])))).every(
          ({ exitCode }) => exitCode === 0,
        ),
      "the load's end",
    )
    const failed = await Promise.all(lanes.map((name) => this.#read(`failed-${name}`)))
    return failed.flatMap((text) => text.split("\n").filter(Boolean).slice(0, 20))
  }

  #read(name: string): Promise<string> {
    return readFile(this.#host.file(`/run/${name}`), "utf8").catch(() => "")
  }
}
