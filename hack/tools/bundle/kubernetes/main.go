// Command kubernetes is etcd, kube-apiserver, kubelet, kubectl, gpu-scheduler or the tests of test/card, depending on the name under which it is
// started.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	scheduler "g8s.host/gpu-scheduler/cmd/gpu-scheduler/command"
	"g8s.host/gpu-scheduler/test/card"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
	case "gpu-scheduler":
		os.Exit(scheduler.Main())
	case "card.test":
		all := func(pattern, name string) (bool, error) { return regexp.MatchString(pattern, name) }
		testing.Main(all, []testing.InternalTest{{Name: "TestCards", F: card.Suite}}, nil, nil)
	default:
		fmt.Fprintf(os.Stderr, "%s is none of the programs in here: start it under the name of one\n", name)
		os.Exit(2)
	}
}
