import type { Feature } from "../lab/mod.ts"

/** A kernel to test on, and how a machine with it starts. */
export interface Kernel {
  readonly title: string
  /** The only features for want of which a test may be left out here. */
  readonly lacks: readonly Feature[]
  /** What this kernel is here for: the tests that need one of these features run. */
  readonly shows: readonly Feature[]
  /**
   * Of which plugins the tests by their names run, `PLUGIN: …`, where the other machines run, too, and have the others; all where it
   * is undefined.
   */
  readonly only?: readonly string[] | undefined
  /** Test files, in `integration/`, that run whole. */
  readonly files: readonly string[]
  /** Test files that run once more when the machine has been started again, with its disk as it was. */
  readonly rebooted?: readonly string[]
  /** How many times longer than elsewhere a test may take. */
  readonly patience: number
  /** How long the machine may run, from start to power-off. */
  readonly limitMs: number
  /** How it mounts directories of the machine outside: over virtio, or as the program of that machine that it is. */
  readonly share: "9p" | "hostfs"
  /** Modules that `init.sh` needs before it has the root file system. */
  readonly initModules: readonly string[]
  /** The kernel's files on this machine, downloaded when they are missing; `scratch` is a directory of this run. */
  find(scratch: string): Promise<KernelFiles>
  /** The command line that runs a machine until it powers off, its console on stdin and stdout. */
  command(boot: Boot): string[]
}

export interface KernelFiles {
  readonly image: string
  /** The directory that is `/lib/modules/RELEASE` inside. */
  readonly modules: string
  /** A library that the kernel's program is started with, where it is a program. */
  readonly preload?: string
}

/** What one start needs. */
export interface Boot extends Pick<KernelFiles, "image" | "preload"> {
  readonly initramfs: string
  /** The only directory of the machine outside that the VM can write to. */
  readonly reports: string
  /** The image of a disk with an empty ext4. */
  readonly disk: string
}
