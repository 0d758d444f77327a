package configcheck

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// TestTheAdviceNamesTheConfigMapThatIsMounted has the JSONPath find the name in the Deployment that is installed: it ends with a
// hash, which no text can know.
func TestTheAdviceNamesTheConfigMapThatIsMounted(t *testing.T) {
	data, err := os.ReadFile("../../manifests/scheduler/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	installed := strings.Replace(string(data), "name: gpu-scheduler-config\n", "name: gpu-scheduler-config-cm4k29ghbf\n", 1)
	var deployment map[string]any
	if err := yaml.Unmarshal([]byte(installed), &deployment); err != nil {
		t.Fatal(err)
	}
	var found bytes.Buffer
	path := jsonpath.New("name")
	if err := path.Parse(MountedConfig); err != nil {
		t.Fatal(err)
	}
	if err := path.Execute(&found, deployment); err != nil {
		t.Fatal(err)
	}
	if found.String() != "gpu-scheduler-config-cm4k29ghbf" {
		t.Errorf("found %q", found.String())
	}
	_, err = Read(t.Context(), []byte("apiVersion: v1\nkind: ConfigMap\n"))
	if err == nil || !strings.Contains(err.Error(), MountedConfig) || strings.Contains(err.Error(), "configmap gpu-scheduler-config") {
		t.Errorf("the advice is %v", err)
	}
}
