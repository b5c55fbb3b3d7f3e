import { expect, test } from "bun:test"
import { loadOrder } from "./modules.ts"

// The format of modules.dep from depmod(8) of Debian 12: the module to load first is last.
const dependencies = `kernel/net/9p/9pnet.ko:
kernel/net/9p/9pnet_virtio.ko: kernel/net/9p/9pnet.ko kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/fscache/fscache.ko kernel/fs/netfs/netfs.ko
`

test("a module comes after all that it needs, and each only once", () => {
  expect(loadOrder(["9pnet_virtio", "9p"], dependencies, "")).toEqual([
    "kernel/drivers/virtio/virtio_ring.ko",
    "kernel/drivers/virtio/virtio.ko",
    "kernel/net/9p/9pnet.ko",
    "kernel/net/9p/9pnet_virtio.ko",
    "kernel/fs/netfs/netfs.ko",
    "kernel/fs/fscache/fscache.ko",
    "kernel/fs/9p/9p.ko",
  ])
})

test("what is built in has no file; what is neither is an error", () => {
  expect(loadOrder(["overlay"], dependencies, "kernel/fs/overlayfs/overlay.ko\n")).toEqual([])
  expect(() => loadOrder(["overlay"], dependencies, "")).toThrow("Cannot find the kernel module overlay")
})
