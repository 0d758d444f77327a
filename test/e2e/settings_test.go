package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/manifests"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/sandbox/command"
)

// differs are the settings of programs that the sandbox has otherwise than the manifests, each with its reason. What shows in the sandbox and is not
// here is what an installation does.
var differs = map[string]map[string]string{
	names.SchedulerName: {
		"--authentication-kubeconfig": "a process has no account of a pod",
		"--authorization-kubeconfig":  "a process has no account of a pod",
		"--bind-address":              "nothing listens beyond this machine",
		"--cert-dir":                  "the file system of a pod is its own",
		"--explain-secure-port":       "0 in its configuration: several run on one machine",
		"-v":                          "the log is for a person who looks at it",
	},
	sandbox.ControllerName: {
		"--kubeconfig":           "a process has no account of a pod",
		"--metrics-bind-address": "several run on one machine, and nothing asks for metrics there",
		"--spot-simulated":       "machines of SpotPools are nodes that kwok plays",
		"--out-of-service-after": "a kubelet that is stopped takes its pods with it: nobody waits four minutes for what is certain",
		"--silent-node-after":    "the default is the same, and --out-of-service-after comes first",
		"env GOMEMLIMIT":         "a process has no limit of memory",
	},
	sandbox.LedgerName: {
		"--kubeconfig":   "a process has no account of a pod",
		"env GOMEMLIMIT": "a process has no limit of memory",
	},
	sandbox.ServerName: {
		"--kubeconfig":     "a process has no account of a pod",
		"--shutdown-delay": "no Service sends requests to it",
		"--shutdown-grace": "no Service sends requests to it",
		"env GOMEMLIMIT":   "a process has no limit of memory",
	},
}

// ownValues are settings that a process must have other values of: addresses and paths.
var ownValues = []string{"--config", "--secure-port", "--listen", "--tls-cert-file", "--tls-key-file", "--data-dir", "--health-probe-bind-address"}

// TestTheSandboxRunsWhatTheManifestsShip compares the arguments and the environment of each program of a sandbox that is up with its manifest.
func TestTheSandboxRunsWhatTheManifestsShip(t *testing.T) {
	start := map[string]func() error{
		sandbox.ControllerName: func() error {
			if err := cluster.InstallController(t.Context()); err != nil {
				return err
			}
			_, err := cluster.StartController(t.Context(), sandbox.ControllerOptions{Args: command.ControllerArgs()})
			return err
		},
		sandbox.LedgerName: func() error {
			if err := cluster.InstallLedger(t.Context()); err != nil {
				return err
			}
			_, err := cluster.StartLedger(t.Context(), sandbox.LedgerOptions{})
			return err
		},
		sandbox.ServerName: func() error {
			if err := cluster.InstallServer(t.Context()); err != nil {
				return err
			}
			_, err := cluster.StartServer(t.Context(), sandbox.ServerOptions{})
			return err
		},
	}
	for program, manifest := range map[string]string{
		names.SchedulerName: "scheduler/deployment.yaml", sandbox.ControllerName: "controller/deployment.yaml",
		sandbox.LedgerName: "ledger/statefulset.yaml", sandbox.ServerName: "server/deployment.yaml",
	} {
		t.Run(program, func(t *testing.T) {
			if begin := start[program]; begin != nil {
				if err := begin(); err != nil {
					t.Fatal(err)
				}
			}
			shipped, runs := shippedSettings(t, manifest), settingsOf(t, program)
			found := map[string]bool{}
			for _, name := range slices.Concat(keys(shipped), keys(runs)) {
				a, ships := shipped[name]
				b, has := runs[name]
				if strings.HasPrefix(name, "env ") && !ships || ships && has && (a == b || slices.Contains(ownValues, name)) {
					continue // the environment of a process is that of its machine besides
				}
				found[name] = true
				if differs[program][name] == "" {
					t.Errorf("%s: %q in the manifest (there: %t), %q in the sandbox (there: %t): give both the same, or a reason here", name, a, ships, b, has)
				}
			}
			for name, why := range differs[program] {
				if !found[name] {
					t.Errorf("%s does not differ: take the reason away (%s)", name, why)
				}
			}
		})
	}
}

// shippedSettings are the arguments and the environment of the first container of a manifest.
func shippedSettings(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := manifests.FS.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var workload struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	if err := yaml.Unmarshal(text, &workload); err != nil {
		t.Fatal(err)
	}
	container := workload.Spec.Template.Spec.Containers[0]
	out := flagsOf(container.Args)
	for _, variable := range container.Env {
		out["env "+variable.Name] = variable.Value
	}
	return out
}

// settingsOf are those of a process of the sandbox.
func settingsOf(t *testing.T, program string) map[string]string {
	t.Helper()
	pid, err := os.ReadFile(cluster.PIDFile(program))
	if err != nil {
		t.Fatal(err)
	}
	read := func(file string) []string {
		text, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), file))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	}
	out := flagsOf(read("cmdline")[1:])
	for _, variable := range read("environ") {
		name, value, _ := strings.Cut(variable, "=")
		out["env "+name] = value
	}
	return out
}

func flagsOf(args []string) map[string]string {
	out := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if _, twice := out[name]; twice {
			name = fmt.Sprint(name, " again")
		}
		out[name] = value
	}
	return out
}

func keys(m map[string]string) (out []string) {
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}
