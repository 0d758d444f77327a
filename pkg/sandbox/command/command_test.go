package command

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// programVariable makes this test binary gpu-sandbox itself.
const programVariable = "SANDBOX_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

// program runs gpu-sandbox as a process of its own, as up starts itself again. It is also used in cleanups,
// where the context of the test has ended.
func program(t *testing.T, root string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append(args, "--dir", root)...)
	cmd.Env = append(os.Environ(), programVariable+"=1")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// TestLifeOfACluster goes through all commands, twice where they must bear it.
func TestLifeOfACluster(t *testing.T) {
	root := t.TempDir()
	ends := "`gpu-sandbox down --dir " + root + "`"
	steps := []struct {
		args               []string
		wantCode           int
		wantOut, wantError string
	}{
		{args: []string{"status", "--name", "zzz"}, wantCode: 1, wantError: "start it with `gpu-sandbox up --name zzz --dir " + root + "`"},
		{args: []string{"down"}, wantError: "is not running"},
		{args: []string{"node", "stop", "train-01"}, wantCode: 1, wantError: "start it with"},
		{args: []string{"up", "--no-scheduler", "--nodes", "8"}, wantOut: "kubeconfig\n", wantError: "8 nodes are ready"},
		{args: []string{"up", "--no-scheduler"}, wantOut: "kubeconfig\n",
			wantError: "is running already: " + ends + " ends it\n\nThe cluster runs until " + ends},
		{args: []string{"up", "--api"}, wantCode: 1, wantError: `runs without --api, which cannot be added to it: ` + ends + ", then"},
		{args: []string{"kubeconfig"}, wantOut: filepath.Join(root, "default", "kubeconfig")},
		{args: []string{"status"}, wantOut: "training-pool"},
		{args: []string{"status", "-o", "json"}, wantOut: `"name": "etcd"`},
		{args: []string{"node", "stop", "--at-once", "train-01"}, wantOut: "node/train-01: its kubelet is stopped\n"},
		{args: []string{"node", "stop", "train-01"}, wantOut: "stopped"},
		{args: []string{"node", "stop", "nobody"}, wantCode: 1, wantError: `nodes "nobody" not found`},
		{args: []string{"node", "start", "train-01"}, wantOut: "node/train-01: its kubelet runs\n"},
		{args: []string{"logs"}, wantOut: "kube-apiserver"},
		{args: []string{"logs", "kwok"}, wantOut: "Watch nodes"},
		{args: []string{"logs", "kubelet"}, wantCode: 1, wantError: `no component "kubelet"`},
		{args: []string{"down"}, wantError: "is gone"},
		{args: []string{"down"}, wantError: "is not running"},
	}
	t.Cleanup(func() { program(t, root, "down") })
	for _, step := range steps {
		stdout, stderr, code := program(t, root, step.args...)
		if code != step.wantCode || !strings.Contains(stdout, step.wantOut) || !strings.Contains(stderr, step.wantError) {
			t.Fatalf("%v: got exit code %d, want %d\nstdout, want %q:\n%s\nstderr, want %q:\n%s",
				step.args, code, step.wantCode, step.wantOut, stdout, step.wantError, stderr)
		}
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) > 0 {
		t.Errorf("got %v left, error %v", entries, err)
	}
}

func TestUpRefusesBeforeItStartsAnything(t *testing.T) {
	fleet := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(fleet, []byte("groups:\n- {namePrefix: a, count: 1, gpus: 8}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(t.TempDir(), "real.yaml")
	if err := os.WriteFile(real, []byte(`groups: [{namePrefix: real, count: 1, cpu: "1", memory: 1Gi}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"a name that is no directory's":   {args: []string{"--name", "../x"}, want: "--name"},
		"a fleet with an unknown field":   {args: []string{"--fleet", fleet}, want: fleet + `: parsing the fleet: error unmarshaling JSON: while decoding JSON: json: unknown field "gpus"`},
		"a fleet that is not there":       {args: []string{"--fleet", fleet + "x"}, want: "no such file"},
		"a node called as the real one":   {args: []string{"--fleet", real, "--real-node"}, want: "a simulated node would be called real-01"},
		"fewer nodes than groups":         {args: []string{"--nodes", "3"}, want: "7 groups"},
		"a negative number of schedulers": {args: []string{"--schedulers", "-1"}, want: "--schedulers"},
		"an argument":                     {args: []string{"now"}, want: "unknown command"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "root")
			cmd := New()
			cmd.SetArgs(append([]string{"up", "--dir", root}, tc.args...))
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
			if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was started in %s: %v", root, err)
			}
		})
	}
}

func TestWhatIsToBeTypedReachesTheSandboxThatIsMeant(t *testing.T) {
	tests := map[string]struct {
		place location
		want  string
	}{
		"the default one needs no flags":          {location{name: defaultName}, "`gpu-sandbox down`"},
		"a name is said again":                    {location{name: "nc2"}, "`gpu-sandbox down --name nc2`"},
		"a folder of the user's own is said, too": {location{name: "nc2", root: "/x", ownRoot: true}, "`gpu-sandbox down --name nc2 --dir /x`"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.place.commandText("down")); diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARunningClusterThatLacksWhatIsAskedForIsAnError(t *testing.T) {
	o := &upOptions{location: &location{name: "a"}, api: true, hostExec: true, realNode: true}
	tests := map[string]struct {
		state state
		want  string
	}{
		"it has nothing": {state{}, "down --name a`, then `gpu-sandbox up --api --host-exec --real-node --name a`"},
		"it has the API": {state{Components: []component{{Name: sandbox.ServerName}}}, "`gpu-sandbox up --host-exec --real-node --name a`"},
		"it has all": {state{
			Components: []component{{Name: sandbox.ServerName}, {Name: realnode.KubeletName}}, HostExec: true,
		}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := o.checkMissing(tc.state)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestARealNodeIsRefusedBeforeAnythingStarts asks for one in a folder where none can be.
func TestARealNodeIsRefusedBeforeAnythingStarts(t *testing.T) {
	for _, verb := range [][]string{{"up", "--real-node"}, {"check", "--machine-only"}} {
		cmd := New()
		cmd.SetArgs(append(verb, "--dir", "/var/lib/gpu-sandbox-test"))
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !errors.Is(err, realnode.ErrCannot) && !strings.Contains(err.Error(), "put it elsewhere") {
			t.Errorf("%v: got %v", verb, err)
		}
		if _, err := os.Stat("/var/lib/gpu-sandbox-test"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v: something was started: %v", verb, err)
		}
	}
}

func TestTheLockHasOneHolder(t *testing.T) {
	p := &location{root: t.TempDir(), name: "a"}
	lock, err := p.acquireLock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.acquireLock(); !errors.Is(err, errLocked) {
		t.Errorf("got error %v from the second, want %v", err, errLocked)
	}
	if err := p.releaseLock(lock); err != nil {
		t.Fatal(err)
	}
	lock, err = p.acquireLock()
	if err != nil {
		t.Fatalf("got error %v after the release", err)
	}
	if err := p.releaseLock(lock); err != nil {
		t.Fatal(err)
	}
}

func TestByPoolSumsUpNodes(t *testing.T) {
	node := func(pool, kind, gpus string, ready corev1.ConditionStatus) corev1.Node {
		labels := map[string]string{g8s.LabelGPUType: kind}
		if pool != "" {
			labels[g8s.LabelPool] = pool
		}
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{g8s.ResourceGPU: resource.MustParse(gpus)},
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
			},
		}
	}
	got := sumByPool([]corev1.Node{
		node("b", "T4", "4", corev1.ConditionTrue),
		node("b", "A10", "2", corev1.ConditionFalse),
		node("b", "T4", "4", corev1.ConditionTrue),
		node("", "H100", "8", corev1.ConditionTrue),
	})
	want := []poolRow{
		{pool: "b", nodes: 3, ready: 2, gpus: 10, types: []string{"A10", "T4"}},
		{pool: g8s.DefaultPool, nodes: 1, ready: 1, gpus: 8, types: []string{"H100"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(poolRow{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestCrashedShowsTheEndOfTheLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "etcd.log")
	if err := os.WriteFile(log, []byte("panic: disk full\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	st := state{Components: []component{{Name: "kwok"}, {Name: "etcd", Crash: "exit status 2", Log: log}}}
	var exit *sandbox.ExitError
	if err := st.crashError(); !errors.As(err, &exit) || exit.Name != "etcd" || exit.Tail != "panic: disk full" {
		t.Errorf("got %v, want etcd's name and log", err)
	}
	if err := (state{Components: st.Components[:1]}).crashError(); err != nil {
		t.Errorf("got %v for a healthy cluster", err)
	}
}
