package operators

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// operator is one of another project, which runs as its own program beside a cluster.
type operator struct {
	// name is that of its folder in hack/tools/operators, of its program and its log.
	name string
	// module has its CRDs in a folder, and its webhooks in a file, "" where they are left out.
	module, crds, webhooks string
	// objects are what it expects to be installed with it, "" for none.
	objects string
	// certs is where it reads the certificate of its webhooks, "" where its configuration says so.
	certs string
	// config is its configuration, with the places PORT, HEALTH, METRICS and CERTS, "" where args have it all.
	config string
	args   []string
}

var operators = []operator{
	{
		name: "kuberay", module: "github.com/ray-project/kuberay/ray-operator", crds: "config/crd/bases",
		args: []string{"--enable-leader-election=false", "--metrics-addr=127.0.0.1:METRICS", "--health-probe-bind-address=127.0.0.1:HEALTH"},
	},
	{
		name: "jobset", module: "sigs.k8s.io/jobset", crds: "config/components/crd/bases", webhooks: "config/components/webhook/manifests.yaml",
		config: configuration("config.jobset.x-k8s.io/v1alpha1"),
	},
	{
		name: "lws", module: "sigs.k8s.io/lws", crds: "config/crd/bases", webhooks: "config/webhook/manifests.yaml",
		config: configuration("config.lws.x-k8s.io/v1alpha1"),
	},
	{
		name: "training", module: "github.com/kubeflow/training-operator", crds: "manifests/base/crds", objects: trainingObjects, certs: defaultCerts,
		args: []string{"--webhook-server-port=PORT", "--metrics-bind-address=127.0.0.1:METRICS", "--health-probe-bind-address=127.0.0.1:HEALTH"},
	},
	{
		name: "trainer", module: "github.com/kubeflow/trainer/v2", crds: "manifests/base/crds", certs: defaultCerts,
		config: `apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
certManagement: {enable: false}
leaderElection: {leaderElect: false}
webhook: {port: PORT, host: "127.0.0.1"}
health: {healthProbeBindAddress: "127.0.0.1:HEALTH"}
metrics: {bindAddress: "127.0.0.1:METRICS", secureServing: false}
`,
	},
}

// defaultCerts is where programs built with controller-runtime read the certificate of their webhooks. What Kubeflow's webhooks check is left out.
const defaultCerts = "/tmp/k8s-webhook-server/serving-certs"

// trainingObjects are what training-operator writes its own certificate to.
const trainingObjects = `apiVersion: v1
kind: Namespace
metadata: {name: kubeflow}
---
apiVersion: v1
kind: Secret
metadata: {name: training-operator-webhook-cert, namespace: kubeflow}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validator.training-operator.kubeflow.org}
`

// configuration is that of an operator which manages no certificates of its own and has no rival.
func configuration(version string) string {
	return "apiVersion: " + version + `
kind: Configuration
internalCertManagement: {enable: false}
leaderElection: {leaderElect: false}
webhook: {port: PORT, certDir: CERTS}
health: {healthProbeBindAddress: "127.0.0.1:HEALTH"}
metrics: {bindAddress: "127.0.0.1:METRICS"}
`
}

func (o operator) program() string {
	return filepath.Join("..", "..", "bin", "tools", "operator-"+o.name)
}

// start runs the operator in a cluster, with its CRDs and webhooks installed, and returns when it is ready.
func (o operator) start(ctx context.Context, s *sandbox.Sandbox) error {
	module, err := o.folder(ctx)
	if err != nil {
		return err
	}
	if err := o.install(ctx, s, filepath.Join(module, o.crds)); err != nil {
		return err
	}
	ports := map[string]string{"CERTS": cmp.Or(o.certs, filepath.Join(s.Dir(), o.name))}
	for _, name := range []string{"PORT", "HEALTH", "METRICS"} {
		port, err := sandbox.FreePort("127.0.0.1")
		if err != nil {
			return err
		}
		ports[name] = fmt.Sprint(port)
	}
	fill := strings.NewReplacer("PORT", ports["PORT"], "HEALTH", ports["HEALTH"], "METRICS", ports["METRICS"], "CERTS", ports["CERTS"])
	var args []string
	for _, arg := range o.args {
		args = append(args, fill.Replace(arg))
	}
	if o.config != "" {
		file := filepath.Join(s.Dir(), o.name+".yaml")
		if err := os.WriteFile(file, []byte(fill.Replace(o.config)), 0o600); err != nil {
			return err
		}
		args = append(args, "--config="+file)
	}
	authority, err := writeCertificate(ports["CERTS"])
	if err != nil {
		return err
	}
	path, err := filepath.Abs(o.program())
	if err != nil {
		return err
	}
	env := []string{"KUBECONFIG=" + s.Kubeconfig()}
	if o.certs != "" {
		env = append(env, "TMPDIR=/tmp")
	}
	_, err = s.StartProcess(ctx, sandbox.ProcessSpec{
		Name: o.name, Path: path, Args: args, Env: env,
		Ready: sandbox.HTTPReady("http://127.0.0.1:" + ports["HEALTH"] + "/readyz"),
	})
	if err != nil || o.webhooks == "" {
		return err
	}
	hooks, err := o.webhooksAt(filepath.Join(module, o.webhooks), ports["PORT"], authority)
	if err != nil {
		return err
	}
	return o.apply(ctx, s, "webhooks", string(hooks))
}

// install applies the operator's CRDs, and the objects that it expects.
func (o operator) install(ctx context.Context, s *sandbox.Sandbox, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		if _, err := s.RunKubectl(ctx, "apply", "--server-side", "-f", file); err != nil {
			return err
		}
	}
	if _, err := s.RunKubectl(ctx, "wait", "--for=condition=Established", "crd", "--all"); err != nil {
		return err
	}
	if o.objects == "" {
		return nil
	}
	return o.apply(ctx, s, "objects", o.objects)
}

// apply applies YAML, by way of a file of that name.
func (o operator) apply(ctx context.Context, s *sandbox.Sandbox, name, text string) error {
	file := filepath.Join(s.Dir(), o.name+"-"+name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	_, err := s.RunKubectl(ctx, "apply", "--server-side", "-f", file)
	return err
}

// folder is that of the operator's module, in the module cache.
func (o operator) folder(ctx context.Context) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", o.module)
	list.Dir = filepath.Join("..", "..", "hack", "tools", "operators", o.name)
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", o.module, errors.Join(err, stderrOf(err)))
	}
	return strings.TrimSpace(string(out)), nil
}

func stderrOf(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errors.New(string(exit.Stderr))
	}
	return nil
}

// writeCertificate makes a certificate for this machine in a folder, and returns its authority.
func writeCertificate(folder string) ([]byte, error) {
	authority, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{"tls.crt": authority, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	return authority, nil
}

// webhooksAt are the operator's webhooks, as its project publishes them, at a port of this machine.
func (o operator) webhooksAt(file, port string, authority []byte) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, document := range strings.Split(string(text), "\n---") {
		var mutating admissionv1.MutatingWebhookConfiguration
		if err := yaml.Unmarshal([]byte(document), &mutating); err != nil || mutating.Kind == "" {
			continue
		}
		// The two kinds of configurations have the fields that matter here in common.
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, err
		}
		hooks, _ := object["webhooks"].([]any)
		for i, hook := range mutating.Webhooks {
			url := "https://127.0.0.1:" + port + ptr.Deref(hook.ClientConfig.Service.Path, "")
			hooks[i].(map[string]any)["clientConfig"] = map[string]any{"url": url, "caBundle": authority}
		}
		object["metadata"] = map[string]any{"name": o.name + "-" + strings.ToLower(mutating.Kind)}
		made, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		out = append(out, string(made))
	}
	return []byte(strings.Join(out, "\n---\n")), nil
}
