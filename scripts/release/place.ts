/** The paths of a release's files in packages, and the metadata that all packages share. */
import { gzipSync } from "node:zlib"
import { version } from "../../package.json"
import { REFERENCE_VERSION } from "../../pkg/skel/mod.ts"
import type { PlacedFile, StagedFile } from "./stage.ts"

export const about = {
  name: "cni-plugins",
  version,
  /**
   * The version in packages, such as 1.0.0~rc.1. Only with "~" do Debian and RPM sort a candidate before its release.
   */
  packageVersion: version.replace("-", "~"),
  licence: "Apache-2.0",
  maintainer: "The maintainers of cni-plugins <maintainers@cni-plugins.example>",
  summary: "Container Network Interface plugins, static and small",
  description: [
    "Plugins that containerd, CRI-O, podman, nerdctl and Kubernetes call to attach containers to networks: bridge, ptp, macvlan, ipvlan, vlan, host-device, dummy, tap and loopback; host-local, static and dhcp for addresses; portmap, firewall, bandwidth, tuning, sbr, vrf and flannel.",
    "They take the configurations of the reference plugins and share the files of host-local with these. Each is a static executable that needs no other program and no library.",
  ],
  /** The distributions' package of the reference plugins, which this one replaces. */
  replaces: "containernetworking-plugins",
  replacedVersion: REFERENCE_VERSION,
} as const

/** The directories in a package, relative to the root and without a slash at the beginning. */
export interface Layout {
  readonly plugin: string
  /** The directory of units. systemd's presets are in the directory with "-preset" at the end of that name. */
  readonly unit: string
  readonly document: string
  readonly zsh: string
}

/** Returns a release's files in a layout: manual pages are compressed, and units get the executables' paths. */
export function place(files: readonly StagedFile[], layout: Layout): PlacedFile[] {
  return files.map(({ kind, name, mode, bytes }) => {
    const directory = directoryOf(kind, name, layout)
    if (kind === "manual") return { path: `${directory}/${name}.gz`, mode, bytes: compress(bytes) }
    if (kind === "unit") return { path: `${directory}/${name}`, mode, bytes: callFrom(bytes, layout) }
    return { path: `${directory}/${kind === "completion" ? name.replace(/^.*\//, "") : name}`, mode, bytes }
  })
}

/** Compresses data like gzip, without a file name and a time. */
export const compress = (bytes: string | Uint8Array) => gzipSync(bytes, { level: 9 })

export const textFile = (path: string, content: string | Uint8Array): PlacedFile => ({
  path,
  mode: 0o644,
  bytes: Buffer.from(content),
})

function directoryOf(kind: StagedFile["kind"], name: string, layout: Layout): string {
  switch (kind) {
    case "plugin":
    case "document":
      return layout[kind]
    case "unit":
      return name.endsWith(".preset") ? `${layout.unit}-preset` : layout.unit
    case "tool":
      return "usr/bin"
    case "manual":
      return "usr/share/man"
    case "completion":
      if (name.startsWith("bash/")) return "usr/share/bash-completion/completions"
      return name.startsWith("zsh/") ? layout.zsh : "usr/share/fish/vendor_completions.d"
    default:
      return `usr/share/${about.name}/${kind}s`
  }
}

/** Returns a unit with the paths of the executables in the layout. */
function callFrom(unit: Uint8Array, layout: Layout): Uint8Array {
  const text = Buffer.from(unit).toString()
  return Buffer.from(text.replaceAll("/opt/cni/bin/", `/${layout.plugin}/`).replaceAll("/usr/local/bin/", "/usr/bin/"))
}
