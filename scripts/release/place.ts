/** The places of a release's files in packages, and the common metadata of packages. */
import { gzipSync } from "node:zlib"
import { version } from "../../package.json"
import { REFERENCE_VERSION } from "../../pkg/skel/mod.ts"
import type { PlacedFile, StagedFile } from "./stage.ts"

/** The metadata of a package. */
export const about = {
  name: "cni-plugins",
  version,
  /** Pre-releases sort before their release in Debian and in RPM: 1.0.0~rc.1 */
  packageVersion: version.replace("-", "~"),
  licence: "Apache-2.0",
  maintainer: "The maintainers of cni-plugins <maintainers@cni-plugins.example>",
  summary: "Container Network Interface plugins, static and small",
  description: [
    "Plugins that containerd, CRI-O, podman, nerdctl and Kubernetes call to attach containers to networks: bridge, ptp, macvlan, ipvlan, vlan, host-device, dummy, tap and loopback; host-local, static and dhcp for addresses; portmap, firewall, bandwidth, tuning, sbr, vrf and flannel.",
    "They take the configurations of the reference plugins and share the files of host-local with these. Each is a static executable that needs no other program and no library.",
  ],
  /** The distributions' package of the reference plugins, and the version that this one replaces. */
  replaces: "containernetworking-plugins",
  replacedVersion: REFERENCE_VERSION,
} as const

/** The directories of a package, from the root, without a slash before them. */
export interface Layout {
  readonly plugin: string
  /** systemd's presets lie in the directory with "-preset" behind its name. */
  readonly unit: string
  readonly document: string
  readonly zsh: string
}

/**
 * Returns the places of a release's files in a layout. Manual pages are compressed; units call the executables at their
 * places.
 */
export function place(files: readonly StagedFile[], layout: Layout): PlacedFile[] {
  return files.map(({ kind, name, mode, bytes }) => {
    const directory = directoryOf(kind, name, layout)
    if (kind === "manual") return { path: `${directory}/${name}.gz`, mode, bytes: compress(bytes) }
    if (kind === "unit") return { path: `${directory}/${name}`, mode, bytes: callFrom(bytes, layout) }
    return { path: `${directory}/${kind === "completion" ? name.replace(/^.*\//, "") : name}`, mode, bytes }
  })
}

/** Compresses like gzip without a name and a time. */
export const compress = (bytes: string | Uint8Array) => gzipSync(bytes, { level: 9 })

/** A text of a package. */
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

/** A unit whose executables lie where the layout has them. */
function callFrom(unit: Uint8Array, layout: Layout): Uint8Array {
  const text = Buffer.from(unit).toString()
  return Buffer.from(text.replaceAll("/opt/cni/bin/", `/${layout.plugin}/`).replaceAll("/usr/local/bin/", "/usr/bin/"))
}
