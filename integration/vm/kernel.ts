import type { Feature } from "../lab/mod.ts"

/** A kernel for tests, and how to start a machine with it. */
export interface Kernel {
  readonly title: string
  /** The features that this kernel may lack. The kernel skips tests that need one of them. */
  readonly lacks: readonly Feature[]
  /** The features for which this kernel was added. The kernel runs every test that needs one of them. */
  readonly shows: readonly Feature[]
  /**
   * The plugins whose tests (`PLUGIN: …`) run on this kernel, while other machines run the rest. Undefined for all
   * plugins.
   */
  readonly only?: readonly string[] | undefined
  /** Test files in `integration/` that run completely. */
  readonly files: readonly string[]
  /** Test files that run again after a reboot with the same disk. */
  readonly rebooted?: readonly string[]
  /** The factor for the time limits of tests. */
  readonly patience: number
  /** The time limit of the machine in milliseconds, from start to power-off. */
  readonly limitMs: number
  /** How the machine mounts the outer machine's directories: through virtio, or directly as one of its programs. */
  readonly share: "9p" | "hostfs"
  /** Modules that `init.sh` needs before it mounts the root file system. */
  readonly initModules: readonly string[]
  /** Returns the kernel's files on this machine, and downloads missing files. `scratch` is a directory of this run. */
  find(scratch: string): Promise<KernelFiles>
  /** Returns the command that runs a machine until it powers off, with the console on stdin and stdout. */
  command(boot: Boot): string[]
}

export interface KernelFiles {
  readonly image: string
  /** The directory that becomes `/lib/modules/RELEASE` in the machine. */
  readonly modules: string
  /** A library to preload if the kernel is a program. */
  readonly preload?: string
}

/** The parameters for one start of a machine. */
export interface Boot extends Pick<KernelFiles, "image" | "preload"> {
  readonly initramfs: string
  /** The only directory of the outer machine that the machine can write to. */
  readonly reports: string
  /** The image of a disk with an empty ext4 file system. */
  readonly disk: string
}
