// Package install shows that the Helm chart and the kustomizations install the same objects, that the API server takes them,
// that an uninstall leaves what it says and nothing else, and that the programs start as the manifests start them.
package install

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// The cluster that all tests share, and the programs beside its own.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
	tools   string
)

const (
	manifestsDir = "../../../manifests"
	chart        = manifestsDir + "/chart"
)

func TestMain(m *testing.M) {
	options := sandbox.Options{ControllerManager: true}
	os.Exit(sandboxtest.Main(m, options, func(_ context.Context, s *sandbox.Sandbox) (err error) {
		cluster = s
		if tools, err = sandbox.FindTools(); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(tools, "helm")); err != nil {
			return fmt.Errorf("finding Helm (run \"make bin/tools/helm\" in the repository): %w", err)
		}
		config := s.RESTConfig()
		config.QPS = -1
		config.ContentType = "application/vnd.kubernetes.protobuf" // as gpuctl has it
		client, err = kubernetes.NewForConfig(config)
		return err
	}))
}

// helm runs Helm against the cluster and returns what it prints; all of it where it fails.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helmUntil(t.Context(), t, args...)
}

func helmUntil(ctx context.Context, t *testing.T, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(ctx, filepath.Join(tools, "helm"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home,
		"HELM_DATA_HOME=" + home, "KUBECONFIG=" + cluster.Kubeconfig()}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w: %s%s", args[0], err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// objects are what is installed, by kind, namespace and name.
type objects map[string]*unstructured.Unstructured

// template is what the chart makes of values, given as --set takes them.
func template(t *testing.T, values ...string) objects {
	t.Helper()
	args := []string{"template", "g8s", chart}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	out, err := helm(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, out)
}

// kustomize is what a folder of manifests makes.
func kustomize(t *testing.T, folder string) objects {
	t.Helper()
	out, err := cluster.RunKubectl(t.Context(), "kustomize", filepath.Join(manifestsDir, folder))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(out))
}

func parse(t *testing.T, stream string) objects {
	t.Helper()
	found := objects{}
	for document := range strings.SplitSeq("\n"+stream, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object.Object == nil {
			continue // a template that is all comment
		}
		if strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") {
			object.SetNamespace("") // kustomize does not know the kind, and takes it for a namespaced one
		}
		key := strings.TrimSpace(object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName())
		if found[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		found[key] = object
	}
	return found
}
