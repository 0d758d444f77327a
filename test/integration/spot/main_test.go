// Package spot has the machines of SpotPools come, be taken back and go, under gpu-controller as a process of its own with the
// rights of the manifests: simulated ones, and those of a service that speaks Tencent Cloud's API. What is tested here is what
// docs/spot.md promises.
package spot

import (
	"context"
	"flag"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/test/fakecloud"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// The cluster that all tests share, the controller in it, and the cloud behind Tencent Cloud's API.
var (
	cluster    *sandbox.Sandbox
	client     kubernetes.Interface
	writer     *submit.Client
	controller *sandbox.Process
	cloud      *fakecloud.Cloud
	service    *httptest.Server
)

// What no output may show.
const (
	canaryID     = "AKIDcanaryIdentity0001"
	canaryKey    = "canaryKeyOfTheAccount02"
	canaryScript = "kubeadm join --token canary.Token03"
)

func TestMain(m *testing.M) {
	flag.Parse()
	cloud = fakecloud.New(1, time.Now())
	cloud.Boot, cloud.StopFor = 3*time.Second, 2*time.Second
	service = httptest.NewServer(&fakecloud.Tencent{Cloud: cloud, Keys: map[string]string{canaryID: canaryKey}, Region: "ap-singapore"})
	fleet := sandbox.Fleet{Groups: []sandbox.NodeGroup{{
		NamePrefix: "steady", Pool: "steady", Count: 1, GPUsPerNode: 8, GPUType: "A100-80G", Interconnect: "nvlink",
		GPUMemory: resource.MustParse("80Gi"), CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi"), Pods: 110,
	}}}
	code := sandboxtest.Main(m, sandbox.Options{ControllerManager: true, Kwok: true, Fleet: &fleet, Restart: true}, prepare)
	service.Close()
	os.Exit(code)
}

func prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if writer, err = submit.Connect(cluster.RESTConfig()); err != nil {
		return err
	}
	if err := cluster.InstallScheduler(ctx); err != nil {
		return err
	}
	if err := cluster.InstallController(ctx); err != nil {
		return err
	}
	if _, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{}); err != nil {
		return err
	}
	controller, err = startController(ctx, sandbox.ControllerName)
	return err
}

func startController(ctx context.Context, name string) (*sandbox.Process, error) {
	return cluster.StartController(ctx, sandbox.ControllerOptions{Name: name, Args: []string{
		"--spot-tencent-endpoint=" + service.URL, "--leader-elect-lease-duration=3s", "--advice-after=0", "-v=4",
	}})
}
