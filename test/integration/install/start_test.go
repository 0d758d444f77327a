package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// TestEveryProgramStartsAsItsManifestSays runs the programs with the command lines, the files, the environment and the account
// that the chart installs, and asks all their probes. A process has no pod's identity, files or ports of its own: those are
// put in their place, and nothing else. The agent needs a kubelet: test/node runs it by its manifest.
func TestEveryProgramStartsAsItsManifestSays(t *testing.T) {
	values := []string{"--namespace", metav1.NamespaceSystem, "--set", "server.tls.create=true", "--set", "ledger.tls.create=true"}
	for _, value := range everything {
		values = append(values, "--set", value)
	}
	run(t, append([]string{"install", "g8s", chart}, values...)...)
	t.Cleanup(func() { // the test's context has ended
		ctx := context.WithoutCancel(t.Context())
		if _, err := helmUntil(ctx, t, "uninstall", "g8s", "--namespace", metav1.NamespaceSystem); err != nil {
			t.Error(err)
		}
		removeLeftovers(ctx, t)
	})
	all := template(t, everything...)
	tests := map[string]struct {
		workload string
		// lease is what the program takes when it leads; "" where none leads.
		lease string
	}{
		"gpu-scheduler":  {schedulerKey, "gpu-scheduler"},
		"gpu-controller": {"Deployment kube-system/gpu-controller", "gpu-controller"},
		"gpuctl-server":  {serverKey, ""},
		"gpu-ledger":     {ledgerKey, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec, _ := at(t, all, tc.workload, "spec/template/spec").(map[string]any)
			s := &stand{T: t, namespace: all[tc.workload].GetNamespace(), folders: map[string]string{}, ports: map[string]int{}}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &s.pod); err != nil {
				t.Fatal(err)
			}
			process := s.start()
			defer func() {
				if err := process.Stop(); err != nil {
					t.Error(err)
				}
			}()
			s.probe(process)
			if tc.lease != "" {
				s.leads(tc.lease)
			}
			log, err := os.ReadFile(process.LogPath())
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(log)) {
				if strings.Contains(strings.ToLower(line), "forbidden") {
					t.Errorf("it lacks a right: %s", line)
				}
			}
		})
	}
}

// stand is a pod whose one container runs as a process.
type stand struct {
	*testing.T
	namespace string
	pod       corev1.PodSpec
	folders   map[string]string // what is mounted, by the path in the container
	ports     map[string]int    // what it listens on here, by the port in the container
}

func (s *stand) container() *corev1.Container { return &s.pod.Containers[0] }

// start runs the program and returns when it listens.
func (s *stand) start() *sandbox.Process {
	s.Helper()
	kubeconfig, err := cluster.ServiceAccountKubeconfig(s.Context(), s.namespace, s.pod.ServiceAccountName)
	if err != nil {
		s.Fatal(err)
	}
	for _, mount := range s.container().VolumeMounts {
		s.folders[mount.MountPath] = s.TempDir()
	}
	for _, mount := range s.container().VolumeMounts {
		s.fill(mount.Name, s.folders[mount.MountPath], kubeconfig)
	}
	for _, port := range s.container().Ports {
		free, err := sandbox.FreePort("127.0.0.1")
		if err != nil {
			s.Fatal(err)
		}
		s.ports[strconv.Itoa(int(port.ContainerPort))] = free
	}
	var args, env []string
	for _, arg := range s.container().Args {
		args = append(args, s.here(arg))
	}
	for _, variable := range s.container().Env {
		env = append(env, variable.Name+"="+variable.Value)
	}
	name := s.container().Name
	process, err := cluster.StartProcess(s.Context(), sandbox.ProcessSpec{
		Name: name + "-of-the-chart", Path: filepath.Join(tools, "..", name), Env: env, Args: append(args, identity(name, kubeconfig)...),
	})
	if err != nil {
		s.Fatal(err)
	}
	return process
}

// identity are the flags by which a process is the pod's account. The scheduler's is in its configuration, too.
func identity(name, kubeconfig string) []string {
	if name == "gpu-scheduler" {
		return []string{"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig}
	}
	return []string{"--kubeconfig=" + kubeconfig}
}

// here has the folders and ports of this machine in a text of the container's.
func (s *stand) here(text string) string {
	for path, folder := range s.folders {
		// A path may begin with another: only what ends here, or goes on below, is meant.
		text = regexp.MustCompile(regexp.QuoteMeta(path)+`(/|$|\s)`).ReplaceAllString(text, folder+"$1")
	}
	for port, free := range s.ports {
		text = regexp.MustCompile(`\b`+port+`$`).ReplaceAllString(text, strconv.Itoa(free))
	}
	return text
}

// fill puts what the cluster has of a volume into its folder.
func (s *stand) fill(volume, folder, kubeconfig string) {
	s.Helper()
	files := map[string][]byte{}
	for i := range s.pod.Volumes {
		switch v := &s.pod.Volumes[i]; {
		case v.Name != volume:
		case v.ConfigMap != nil:
			found, err := client.CoreV1().ConfigMaps(s.namespace).Get(s.Context(), v.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				s.Fatal(err)
			}
			for name, data := range found.Data {
				files[name] = s.connected(s.here(data), kubeconfig)
			}
		case v.Secret != nil:
			found, err := client.CoreV1().Secrets(s.namespace).Get(s.Context(), v.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				s.Fatal(err)
			}
			files = found.Data
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			s.Fatal(err)
		}
	}
}

// connected is a file in which a configuration of the scheduler says as whom it connects.
func (s *stand) connected(text, kubeconfig string) []byte {
	s.Helper()
	var config map[string]any
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		s.Fatal(err)
	}
	connection, isConfiguration := config["clientConnection"].(map[string]any)
	if !isConfiguration {
		return []byte(text)
	}
	connection["kubeconfig"] = kubeconfig
	out, err := yaml.Marshal(config)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// probe waits until each probe of the container is answered as kubelet wants it.
func (s *stand) probe(process *sandbox.Process) {
	s.Helper()
	probes := map[string]*corev1.Probe{
		"startup": s.container().StartupProbe, "liveness": s.container().LivenessProbe, "readiness": s.container().ReadinessProbe,
	}
	asked := 0
	for kind, probe := range probes {
		if probe == nil {
			continue
		}
		asked++
		url := s.url(probe.HTTPGet)
		ready := sandbox.HTTPReady(url)
		var last error
		err := wait.PollUntilContextTimeout(s.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			select {
			case <-process.Done():
				return false, fmt.Errorf("it has ended: %s", process.LogTail())
			default:
				last = ready(ctx)
				return last == nil, nil
			}
		})
		if err != nil {
			s.Fatalf("its %s probe %s: %v, %v\n%s", kind, url, err, last, process.LogTail())
		}
	}
	if asked < 2 {
		s.Errorf("the manifest has %d probes", asked)
	}
}

func (s *stand) url(get *corev1.HTTPGetAction) string {
	number := get.Port.IntValue()
	for _, port := range s.container().Ports {
		if get.Port.Type == intstr.String && port.Name == get.Port.StrVal {
			number = int(port.ContainerPort)
		}
	}
	scheme := strings.ToLower(string(get.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	return fmt.Sprintf("%s://127.0.0.1:%d%s", scheme, s.ports[strconv.Itoa(number)], get.Path)
}

// leads waits until the program has its lease: until then it has shown no right but those of its probes.
func (s *stand) leads(lease string) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		found, err := client.CoordinationV1().Leases(s.namespace).Get(ctx, lease, metav1.GetOptions{})
		return err == nil && found.Spec.HolderIdentity != nil && *found.Spec.HolderIdentity != "", nil
	})
	if err != nil {
		s.Errorf("it does not lead: %v", err)
	}
}
