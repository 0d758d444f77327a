package runtime

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// server is a runtime that says what a test has it say.
type server struct {
	cri.UnimplementedRuntimeServiceServer
	name, version, config string
	sandboxes             []*cri.PodSandbox
	containers            []*cri.Container
	failure               error
}

func (s *server) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{RuntimeName: s.name, RuntimeVersion: s.version}, s.failure
}

func (s *server) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{Info: map[string]string{"config": s.config}}, s.failure
}

func (s *server) ListPodSandbox(context.Context, *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	return &cri.ListPodSandboxResponse{Items: s.sandboxes}, s.failure
}

func (s *server) ListContainers(context.Context, *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	return &cri.ListContainersResponse{Containers: s.containers}, s.failure
}

func start(t *testing.T, s *server) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(g, s)
	go func() { _ = g.Serve(listener) }()
	client, err := New("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		g.Stop()
	})
	return client
}

func sandbox(uid string, state cri.PodSandboxState) *cri.PodSandbox {
	return &cri.PodSandbox{Metadata: &cri.PodSandboxMetadata{Uid: uid}, State: state}
}

func container(uid, name string, state cri.ContainerState) *cri.Container {
	return &cri.Container{State: state, Labels: map[string]string{labelPod: uid, labelContainer: name}}
}

// TestLive: a pod is over when its sandbox is not ready and all its containers have ended, and no sooner.
func TestLive(t *testing.T) {
	client := start(t, &server{
		sandboxes: []*cri.PodSandbox{
			sandbox("starts", cri.PodSandboxState_SANDBOX_READY), sandbox("runs", cri.PodSandboxState_SANDBOX_READY),
			sandbox("ended", cri.PodSandboxState_SANDBOX_NOTREADY), sandbox("stuck", cri.PodSandboxState_SANDBOX_NOTREADY),
			sandbox("again", cri.PodSandboxState_SANDBOX_NOTREADY), sandbox("again", cri.PodSandboxState_SANDBOX_READY), {},
		},
		containers: []*cri.Container{
			container("runs", "main", cri.ContainerState_CONTAINER_RUNNING), container("runs", "setup", cri.ContainerState_CONTAINER_EXITED),
			container("ended", "main", cri.ContainerState_CONTAINER_EXITED), container("stuck", "main", cri.ContainerState_CONTAINER_UNKNOWN),
			container("made", "main", cri.ContainerState_CONTAINER_CREATED), container("", "other", cri.ContainerState_CONTAINER_RUNNING),
		},
	})
	live, err := client.LivePods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[types.UID]map[string]bool{
		"starts": {}, "runs": {"main": true}, "stuck": {"main": false}, "made": {"main": false}, "again": {},
	}
	if diff := cmp.Diff(want, live); diff != "" {
		t.Errorf("live pods (-want +got):\n%s", diff)
	}
}

func TestARuntimeThatFails(t *testing.T) {
	client := start(t, &server{failure: errors.New("out of order")})
	if live, err := client.LivePods(t.Context()); err == nil {
		t.Errorf("live pods %v, want an error: none would mean that all cards are free", live)
	}
	if _, err := client.UnfitReason(t.Context()); err == nil {
		t.Error("a runtime that does not answer is fit")
	}
}

func TestUnfit(t *testing.T) {
	for name, tc := range map[string]struct {
		runtime, version, config string
		want                     string // part of the reason, "" for fit
	}{
		"containerd":                        {"containerd", "v2.2.7", `{"enableCDI":true}`, ""},
		"of before CDI":                     {"containerd", "1.6.20~ds1", "", "containerd 1.6.20"},
		"with an old library":               {"containerd", "v1.7.0", `{"enableCDI":true}`, "want 1.7.13 or later"},
		"of Debian":                         {"containerd", "1.7.24~ds1", `{"enableCDI":true}`, ""},
		"switched off":                      {"containerd", "v1.7.27", `{"enableCDI":false}`, "enable_cdi"},
		"that does not tell its switches":   {"containerd", "v2.2.7", "", ""},
		"CRI-O":                             {"cri-o", "1.35.0", "", ""},
		"an old CRI-O":                      {"cri-o", "1.20.0", "", "cri-o 1.20.0"},
		"a runtime that nobody knows":       {"other", "0.1", "", ""},
		"a version that nobody understands": {"containerd", "edge", `{"enableCDI":true}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			reason, err := start(t, &server{name: tc.runtime, version: tc.version, config: tc.config}).UnfitReason(t.Context())
			if err != nil || (reason == "") != (tc.want == "") || !strings.Contains(reason, tc.want) {
				t.Errorf("reason %q, error %v; want %q", reason, err, tc.want)
			}
		})
	}
}
