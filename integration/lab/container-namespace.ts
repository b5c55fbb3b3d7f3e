import { Namespace } from "./namespace.ts"

/**
 * A network namespace as a runtime hands it to a plugin: empty, `lo` down. It belongs to a `HostNamespace`, which makes
 * it (`host.addContainer()`) and removes it.
 */
export class ContainerNamespace extends Namespace {
  /** `ip netns exec` gives the program a /sys of this namespace; files are those of the machine. */
  commandLine(command: readonly string[]): string[] {
    return [Bun.which("ip") ?? "ip", "netns", "exec", this.name, ...command]
  }
}
