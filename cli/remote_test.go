package cli

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

func TestWhichPodACommandRunsIn(t *testing.T) {
	up := func(name string, rank *int, age time.Duration) inventory.Pod {
		return inventory.Pod{Name: name, Rank: rank, Phase: "Running", Created: time.Unix(0, 0).Add(-age), Containers: []inventory.ContainerState{
			{Name: "fetch", Init: true, Running: true}, {Name: "main", Running: true}, {Name: "side", Running: true},
		}}
	}
	down := inventory.Pod{Name: "down", Phase: "Failed", Containers: []inventory.ContainerState{{Name: "main"}}}
	tests := map[string]struct {
		pods   []inventory.Pod
		target podTarget
		want   containerRef
		says   string
	}{
		"the oldest one that runs":    {pods: []inventory.Pod{down, up("new", nil, 1), up("old", nil, 2)}, want: containerRef{"team", "old", "main"}},
		"rank 0":                      {pods: []inventory.Pod{up("b", ptr.To(1), 9), up("a", ptr.To(0), 1)}, want: containerRef{"team", "a", "main"}},
		"the rank that was asked for": {pods: []inventory.Pod{up("a", ptr.To(0), 1), up("b", ptr.To(1), 1)}, target: podTarget{rank: 1}, want: containerRef{"team", "b", "main"}},
		"the container asked for":     {pods: []inventory.Pod{up("a", nil, 1)}, target: podTarget{rank: -1, container: "side"}, want: containerRef{"team", "a", "side"}},
		"a pod that does not run":     {pods: []inventory.Pod{down, up("a", nil, 1)}, target: podTarget{rank: -1, pod: "down"}, says: "those that do are: a"},
		"no such container":           {pods: []inventory.Pod{up("a", nil, 1)}, target: podTarget{rank: -1, container: "x"}, says: `no container "x" runs`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.target == (podTarget{}) {
				tc.target.rank = -1
			}
			got, err := tc.target.chooseContainer(inventory.Job{Name: "sft", Namespace: "team", Pods: tc.pods})
			if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Fatalf("error %v, want it to say %q", err, tc.says)
			}
			if got != tc.want {
				t.Errorf("chose %v, want %v", got, tc.want)
			}
		})
	}
}

func TestACommandOnASimulatedNodeSaysHowToRunIt(t *testing.T) {
	got := errorMessage(remoteError("sft-0", errors.New(`unable to upgrade connection: no exec found for container "main"`))).String()
	want := "pod sft-0 is on a simulated node, which runs no commands\n" +
		"Run them on your own machine in its stead: gpu-sandbox down, then gpu-sandbox up --host-exec"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	other := errors.New("broken")
	if got := remoteError("sft-0", other); !errors.Is(got, other) {
		t.Errorf("got %v, want it to wrap %v", got, other)
	}
}

func TestPorts(t *testing.T) {
	tests := map[string]bool{
		"8000": true, "8080:8000": true, ":8000": true, "0:8000": true,
		"": false, "0": false, "8000:": false, "8000:0": false, "a": false, "1:2:3": false, "65536": false, "-1": false,
	}
	for port, valid := range tests {
		if err := checkPorts([]string{port}); (err == nil) != valid {
			t.Errorf("%q: %v, want it to be valid: %t", port, err, valid)
		}
	}
}

func TestRemotePaths(t *testing.T) {
	tests := map[string]bool{"sft:/x": true, "sft:x": true, "./sft:x": false, "/a:b": false, `C:\x`: false, "x": false, ":x": false}
	for text, want := range tests {
		if _, _, got := parseRemotePath(text); got != want {
			t.Errorf("%q is a path of a job: %t, want %t", text, got, want)
		}
	}
}

func TestNotebookToken(t *testing.T) {
	tests := map[string]struct {
		container corev1.Container
		want      string
	}{
		"an argument of the command": {corev1.Container{Command: []string{"jupyter-lab", "--NotebookApp.token=abc"}}, "abc"},
		"in a line for a shell":      {corev1.Container{Args: []string{"-c", "jupyter lab --ServerApp.token='abc' --x"}}, "abc"},
		"in the environment":         {corev1.Container{Env: []corev1.EnvVar{{Name: envToken, Value: "abc"}}}, "abc"},
		"none":                       {corev1.Container{Command: []string{"code-server"}}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{tc.container}}}
			if got, err := notebookToken(t.Context(), nil, pod, ""); got != tc.want || err != nil {
				t.Errorf("token %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestPackAndUnpack(t *testing.T) {
	from := filepath.Join(t.TempDir(), "data")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		file := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("a.txt", "a", 0o644)
	write("sub/run.sh", "b", 0o755)
	if err := os.Symlink("/etc/passwd", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	left, err := packTar(&archive, from, "other")
	if diff := cmp.Diff([]string{filepath.Join(from, "link")}, left); diff != "" || err != nil {
		t.Fatalf("left out (-want +got), %v:\n%s", err, diff)
	}
	target := filepath.Join(t.TempDir(), "copy")
	if _, err := unpackTar(&archive, "other", target); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a.txt": "a", "sub/run.sh": "b"} {
		got, err := os.ReadFile(filepath.Join(target, name))
		if string(got) != want || err != nil {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(target, "sub/run.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode of run.sh: %v, %v", info, err)
	}
}

// TestUnpackStaysInside feeds what a hostile container could send.
func TestUnpackStaysInside(t *testing.T) {
	tests := map[string][]tar.Header{
		"a path upwards":      {{Name: "data/../../evil", Typeflag: tar.TypeReg}},
		"an absolute path":    {{Name: "/evil", Typeflag: tar.TypeReg}},
		"another file":        {{Name: "evil", Typeflag: tar.TypeReg}},
		"a name that is near": {{Name: "data2", Typeflag: tar.TypeReg}},
		"through a link":      {{Name: "data", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "data/../evil", Typeflag: tar.TypeReg}},
		"nothing":             {},
	}
	for name, headers := range tests {
		t.Run(name, func(t *testing.T) {
			var archive bytes.Buffer
			writer := tar.NewWriter(&archive)
			for _, header := range headers {
				header.Mode = 0o644
				if err := writer.WriteHeader(&header); err != nil {
					t.Fatal(err)
				}
			}
			if err := writer.Close(); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if _, err := unpackTar(&archive, "data", filepath.Join(dir, "sub")); err == nil {
				t.Error("it was accepted")
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 0 {
				t.Errorf("%d files were written", len(entries))
			}
		})
	}
}
