import type { Feature } from "../lab/mod.ts"

/** A kernel for tests, and how to start a machine with it. */
export interface Kernel {
  readonly title: string
  /** The only features that may be missing, so that their tests are skipped. */
  readonly lacks: readonly Feature[]
  /** The purpose of this kernel: it runs the tests that need one of these features. */
  readonly shows: readonly Feature[]
  /**
   * The plugins whose tests, by their names `PLUGIN: …`, run here if the other machines run the rest. Undefined for all
   * plugins.
   */
  readonly only?: readonly string[] | undefined
  /** Test files in `integration/` that run completely. */
  readonly files: readonly string[]
  /** Test files that run again after a reboot with the same disk. */
  readonly rebooted?: readonly string[]
  /** The factor of test timeouts. */
  readonly patience: number
  /** The time limit of the machine, from start to power-off. */
  readonly limitMs: number
  /** The way it mounts directories of the outer machine: over virtio, or directly as one of its programs. */
  readonly share: "9p" | "hostfs"
  /** Modules that `init.sh` needs before the root file system is mounted. */
  readonly initModules: readonly string[]
  /** Returns the kernel's files on this machine. Downloads missing ones. `scratch` is a directory of this run. */
  find(scratch: string): Promise<KernelFiles>
  /** Returns the command line that runs a machine until it powers off, with its console on stdin and stdout. */
  command(boot: Boot): string[]
}

export interface KernelFiles {
  readonly image: string
  /** The directory that becomes `/lib/modules/RELEASE` inside. */
  readonly modules: string
  /** A library to preload if the kernel is a program. */
  readonly preload?: string
}

/** The parameters of one start. */
export interface Boot extends Pick<KernelFiles, "image" | "preload"> {
  readonly initramfs: string
  /** The only directory of the outer machine that the VM can write to. */
  readonly reports: string
  /** The image of a disk with an empty ext4. */
  readonly disk: string
}
