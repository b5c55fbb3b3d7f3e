/**
 * Installs files into a directory so that each file is complete at any time. Records the installation, and can undo it.
 * docs/install.md describes this.
 *
 * @example
 * install({ directory: "/opt/cni/bin", names: ["bridge"], source: (name) => `/srv/new/${name}`, from: "/srv/new" })
 * rollback(["/opt/cni/bin"])
 */
export { copyExecutable } from "./content.ts"
export {
  findVersion,
  type Introduction,
  introductionOf,
  isOfThisSuite,
  requireExecutable,
  requireVersion,
} from "./executable.ts"
export { type Installation, install } from "./install.ts"
export { wakeWatchers } from "./layout.ts"
export type { Manifest, Placed } from "./manifest.ts"
export { nodeDirectories, packagedBinDirs, type RuntimePlaces, runtimePlaces } from "./paths.ts"
export type { Outcome } from "./plan.ts"
export { rollback } from "./rollback.ts"
export { InstallerRun } from "./run.ts"
export { uninstall } from "./uninstall.ts"
export { type Difference, type Verified, verify } from "./verify.ts"
