// A runtime that uses Go's libcni: go-runtime COMMAND CONFLIST CONTAINERID NETNS, with CNI_PATH and CACHE_DIR. Prints
// results as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/libcni"
)

type cached struct {
	Config       json.RawMessage        `json:"config"`
	Args         [][2]string            `json:"args"`
	Capabilities map[string]interface{} `json:"capabilities"`
}

func run(command, conflist, container, netns string) (interface{}, error) {
	path := filepath.SplitList(os.Getenv("CNI_PATH"))
	cni := libcni.NewCNIConfigWithCacheDir(path, os.Getenv("CACHE_DIR"), nil)
	list, err := libcni.ConfListFromFile(conflist)
	if err != nil {
		return nil, err
	}
	rt := &libcni.RuntimeConf{ContainerID: container, NetNS: netns, IfName: "eth0"}
	ctx := context.Background()
	switch command {
	case "ADD":
		rt.Args = [][2]string{{"IgnoreUnknown", "1"}}
		port := map[string]interface{}{"hostPort": 8080 + int(container[len(container)-1]-'0'), "containerPort": 80, "protocol": "tcp"}
		rt.CapabilityArgs = map[string]interface{}{"portMappings": []interface{}{port}}
		return cni.AddNetworkList(ctx, list, rt)
	case "DEL":
		return nil, cni.DelNetworkList(ctx, list, rt)
	case "CHECK":
		return nil, cni.CheckNetworkList(ctx, list, rt)
	case "RESULT":
		return cni.GetNetworkListCachedResult(list, rt)
	case "CONFIG":
		config, kept, err := cni.GetNetworkListCachedConfig(list, rt)
		if err != nil || kept == nil {
			return nil, err
		}
		return cached{config, kept.Args, kept.CapabilityArgs}, nil
	}
	return nil, fmt.Errorf("unknown command %q", command)
}

func main() {
	result, err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
