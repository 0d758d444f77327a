// Package stand runs containers of the manifests as processes of a sandbox, for which no images exist: with the command
// line, the files, the environment and the account that a pod of theirs would have. A process has no pod's identity, files
// or ports of its own: those are put in their place, and nothing else.
package stand

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
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
)

const poll = 100 * time.Millisecond

// Pod is a pod whose one container runs as a process.
type Pod struct {
	// Process is there once the pod has started.
	*sandbox.Process

	t         *testing.T
	cluster   *sandbox.Sandbox
	client    kubernetes.Interface
	namespace string
	spec      corev1.PodSpec
	kept      map[string]string // folders of the caller, by the volume that they are
	folders   map[string]string // what is mounted, by the path in the container
	ports     map[string]int    // what it listens on here, by the port in the container
}

// New is a pod of the template of a workload that is installed in a namespace. It does not run yet.
func New(t *testing.T, cluster *sandbox.Sandbox, client kubernetes.Interface, namespace string, spec corev1.PodSpec) *Pod {
	return &Pod{t: t, cluster: cluster, client: client, namespace: namespace, spec: spec, kept: map[string]string{}, folders: map[string]string{}, ports: map[string]int{}}
}

// Keep has a folder be a volume, which outlives the pod. It is called before Start.
func (p *Pod) Keep(volume, folder string) { p.kept[volume] = folder }

func (p *Pod) container() *corev1.Container { return &p.spec.Containers[0] }

// Start runs the program that is called as the container is in a folder, as a process of another name.
func (p *Pod) Start(bin, name string) {
	p.t.Helper()
	kubeconfig, err := p.cluster.ServiceAccountKubeconfig(p.t.Context(), p.namespace, p.spec.ServiceAccountName)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, mount := range p.container().VolumeMounts {
		folder, kept := p.kept[mount.Name]
		if !kept {
			folder = p.t.TempDir()
		}
		p.folders[mount.MountPath] = folder
	}
	for _, mount := range p.container().VolumeMounts {
		p.fill(mount.Name, p.folders[mount.MountPath], kubeconfig)
	}
	for _, port := range p.container().Ports {
		free, err := sandbox.FreePort("127.0.0.1")
		if err != nil {
			p.t.Fatal(err)
		}
		p.ports[strconv.Itoa(int(port.ContainerPort))] = free
	}
	var args, env []string
	for _, arg := range p.container().Args {
		args = append(args, p.here(arg))
	}
	for _, variable := range p.container().Env {
		env = append(env, variable.Name+"="+variable.Value)
	}
	program := p.container().Name
	p.Process, err = p.cluster.StartProcess(p.t.Context(), sandbox.ProcessSpec{
		Name: name, Path: filepath.Join(bin, program), Env: env, Args: append(args, identity(program, kubeconfig)...),
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// identity are the flags by which a process is the pod's account. The scheduler's is in its configuration, too.
func identity(program, kubeconfig string) []string {
	if program == "gpu-scheduler" {
		return []string{"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig}
	}
	return []string{"--kubeconfig=" + kubeconfig}
}

// here has the folders and ports of this machine in a text of the container's.
func (p *Pod) here(text string) string {
	for path, folder := range p.folders {
		// A path may begin with another: only what ends here, or goes on below, is meant.
		text = regexp.MustCompile(regexp.QuoteMeta(path)+`(/|$|\s)`).ReplaceAllString(text, folder+"$1")
	}
	for port, free := range p.ports {
		text = regexp.MustCompile(`\b`+port+`$`).ReplaceAllString(text, strconv.Itoa(free))
	}
	return text
}

// fill puts what the cluster has of a volume into its folder.
func (p *Pod) fill(volume, folder, kubeconfig string) {
	p.t.Helper()
	files := map[string][]byte{}
	for i := range p.spec.Volumes {
		switch v := &p.spec.Volumes[i]; {
		case v.Name != volume:
		case v.ConfigMap != nil:
			found, err := p.client.CoreV1().ConfigMaps(p.namespace).Get(p.t.Context(), v.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				p.t.Fatal(err)
			}
			for name, data := range found.Data {
				files[name] = p.connected(p.here(data), kubeconfig)
			}
		case v.Secret != nil:
			found, err := p.client.CoreV1().Secrets(p.namespace).Get(p.t.Context(), v.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				p.t.Fatal(err)
			}
			files = found.Data
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// connected is a file in which a configuration of the scheduler says as whom it connects.
func (p *Pod) connected(text, kubeconfig string) []byte {
	p.t.Helper()
	var config map[string]any
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		p.t.Fatal(err)
	}
	connection, isConfiguration := config["clientConnection"].(map[string]any)
	if !isConfiguration {
		return []byte(text)
	}
	connection["kubeconfig"] = kubeconfig
	out, err := yaml.Marshal(config)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// Probe waits until each probe of the container is answered as kubelet wants it, and returns how many there are.
func (p *Pod) Probe() (probes int) {
	p.t.Helper()
	for kind, probe := range map[string]*corev1.Probe{
		"startup": p.container().StartupProbe, "liveness": p.container().LivenessProbe, "readiness": p.container().ReadinessProbe,
	} {
		if probe == nil {
			continue
		}
		probes++
		url := p.URL(probe.HTTPGet.Scheme, probe.HTTPGet.Port) + probe.HTTPGet.Path
		ready := sandbox.HTTPReady(url)
		var last error
		err := wait.PollUntilContextTimeout(p.t.Context(), poll, bounds.Patience, true, func(ctx context.Context) (bool, error) {
			select {
			case <-p.Done():
				return false, fmt.Errorf("it has ended: %s", p.LogTail())
			default:
				last = ready(ctx)
				return last == nil, nil
			}
		})
		if err != nil {
			p.t.Fatalf("its %s probe %s: %v, %v\n%s", kind, url, err, last, p.LogTail())
		}
	}
	return probes
}

// URL is where a port of the container, by name or number, is served on this machine.
func (p *Pod) URL(scheme corev1.URIScheme, port intstr.IntOrString) string {
	number := port.IntValue()
	for _, named := range p.container().Ports {
		if port.Type == intstr.String && named.Name == port.StrVal {
			number = int(named.ContainerPort)
		}
	}
	if scheme == "" {
		scheme = corev1.URISchemeHTTP
	}
	return fmt.Sprintf("%s://127.0.0.1:%d", strings.ToLower(string(scheme)), p.ports[strconv.Itoa(number)])
}
