package install

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"g8s.host/gpu-scheduler/pkg/program/tracing"
)

const (
	schedulerKey  = "Deployment kube-system/gpu-scheduler"
	controllerKey = "Deployment kube-system/gpu-controller"
	serverKey     = "Deployment gpuctl-server/gpuctl-server"
	ledgerKey     = "StatefulSet kube-system/gpu-ledger"
	agentKey      = "DaemonSet kube-system/gpu-agent"
	digest        = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// at is what stands in an object: a path of keys, in which @ is the only element of a list.
func at(t *testing.T, all objects, key, path string) any {
	t.Helper()
	if all[key] == nil {
		t.Fatalf("there is no %s", key)
	}
	var value any = all[key].Object
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "@":
			list, _ := value.([]any)
			if len(list) != 1 {
				t.Fatalf("%s of %s: %v has not one element", path, key, value)
			}
			value = list[0]
		default:
			mapping, _ := value.(map[string]any)
			value = mapping[part]
		}
	}
	return value
}

func TestWhatAUserSetsIsInTheObjects(t *testing.T) {
	const pod, container = "spec/template/spec/", "spec/template/spec/containers/@/"
	tests := map[string]struct {
		values    []string
		key, path string
		want      any
	}{
		"the chart's own version":    {nil, schedulerKey, container + "image", "registry.example.com/g8s/gpu-scheduler:v0.1.0"},
		"a registry and a tag":       {[]string{"image.registry=r.test:5000/x", "image.tag=v1"}, agentKey, container + "image", "r.test:5000/x/gpu-agent:v1"},
		"one component's repository": {[]string{"scheduler.image.repository=r.test/s", "image.tag=v1"}, schedulerKey, container + "image", "r.test/s:v1"},
		"one component's tag":        {[]string{"scheduler.image.tag=v2", "image.tag=v1"}, schedulerKey, container + "image", "registry.example.com/g8s/gpu-scheduler:v2"},
		"a digest goes before tags": {[]string{"scheduler.image.digest=" + digest, "scheduler.image.tag=v2"}, schedulerKey, container + "image",
			"registry.example.com/g8s/gpu-scheduler@" + digest},
		"when to pull":          {[]string{"image.pullPolicy=Never"}, ledgerKey, container + "imagePullPolicy", "Never"},
		"with which Secret":     {[]string{"image.pullSecrets[0].name=pull"}, serverKey, pod + "imagePullSecrets", []any{map[string]any{"name": "pull"}}},
		"how many":              {[]string{"scheduler.replicas=3"}, schedulerKey, "spec/replicas", int64(3)},
		"on which nodes":        {[]string{"server.nodeSelector.disk=ssd"}, serverKey, pod + "nodeSelector", map[string]any{"disk": "ssd"}},
		"whatever their taints": {[]string{"server.tolerations[0].operator=Exists"}, serverKey, pod + "tolerations", []any{map[string]any{"operator": "Exists"}}},
		"no toleration":         {[]string{"scheduler.tolerations=null"}, schedulerKey, pod + "tolerations", nil},
		"how much memory":       {[]string{"scheduler.resources.limits.memory=4Gi"}, schedulerKey, container + "resources/limits", map[string]any{"memory": "4Gi"}},
		"the ledger's volume":   {[]string{"ledger.storage.size=20Gi"}, ledgerKey, "spec/volumeClaimTemplates/@/spec/resources/requests", map[string]any{"storage": "20Gi"}},
		"of which class":        {[]string{"ledger.storage.className=fast"}, ledgerKey, "spec/volumeClaimTemplates/@/spec/storageClassName", "fast"},
		"its certificate":       {[]string{"ledger.tls.secretName=mine"}, ledgerKey, pod + "volumes/@/secret", map[string]any{"secretName": "mine"}},
		"a namespace":           {[]string{"server.namespace=api"}, "ClusterRoleBinding /g8s:gpuctl-server", "subjects/@/namespace", "api"},
		"a scoring policy": {[]string{"scheduler.scorePolicy=mine"}, "ConfigMap kube-system/gpu-scheduler-policy", "data",
			map[string]any{"score-policy.yaml": "mine"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := at(t, template(t, append(tc.values, everything...)...), tc.key, tc.path)
			if number, isFloat := got.(float64); isFloat {
				got = int64(number)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s of %s (-want +got):\n%s", tc.path, tc.key, diff)
			}
		})
	}
}

// TestVolumesOfTheAgentAreAdded: a user's volumes come after the manifest's.
func TestVolumesOfTheAgentAreAdded(t *testing.T) {
	values := []string{
		"agent.extraVolumes[0].name=mps", "agent.extraVolumes[0].hostPath.path=/run/nvidia/mps",
		"agent.extraVolumeMounts[0].name=mps", "agent.extraVolumeMounts[0].mountPath=/mps",
	}
	for path, want := range map[string]any{
		"spec/template/spec/volumes":                   map[string]any{"name": "mps", "hostPath": map[string]any{"path": "/run/nvidia/mps"}},
		"spec/template/spec/containers/@/volumeMounts": map[string]any{"name": "mps", "mountPath": "/mps"},
	} {
		before, _ := at(t, template(t), agentKey, path).([]any)
		got := at(t, template(t, values...), agentKey, path)
		if diff := cmp.Diff(append(before, want), got); diff != "" || len(before) == 0 {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// TestFlagsAreAdded: a user's flags come after the manifest's, of which none is lost.
func TestFlagsAreAdded(t *testing.T) {
	path := "spec/template/spec/containers/@/args"
	before, _ := at(t, template(t), schedulerKey, path).([]any)
	got := at(t, template(t, "scheduler.extraArgs[0]=-v=4", "scheduler.extraArgs[1]=--profiling=false"), schedulerKey, path)
	if diff := cmp.Diff(append(before, "-v=4", "--profiling=false"), got); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}

// TestSpansAreSentWhereACollectorIsNamed: each program that sends any mounts the file in its own namespace, which is one that the
// programs can read.
func TestSpansAreSentWhereACollectorIsNamed(t *testing.T) {
	const flag = "--tracing-config-file=/etc/g8s-tracing/tracing.yaml"
	got := template(t, append(slices.Clone(everything), "tracing.endpoint=otel.test:4317", "tracing.samplingRatePerMillion=7", "server.namespace=api")...)
	for key, namespace := range map[string]string{schedulerKey: "kube-system", controllerKey: "kube-system", "Deployment api/gpuctl-server": "api"} {
		pod := &corev1.PodSpec{}
		spec, _ := at(t, got, key, "spec/template/spec").(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, pod); err != nil {
			t.Fatal(err)
		}
		mounted := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "tracing" })
		if !slices.Contains(pod.Containers[0].Args, flag) || mounted < 0 {
			t.Fatalf("%s has the flags %q and the volumes %v", key, pod.Containers[0].Args, pod.Volumes)
		}
		path := filepath.Join(t.TempDir(), "tracing.yaml")
		data, _ := at(t, got, "ConfigMap "+namespace+"/"+pod.Volumes[mounted].ConfigMap.Name, "data").(map[string]any)
		text, _ := data["tracing.yaml"].(string)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		options, flags := &tracing.Options{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		options.AddFlags(flags)
		if err := flags.Parse([]string{"--tracing-config-file=" + path}); err != nil {
			t.Fatal(err)
		}
		stop, err := options.Start(t.Context(), tracing.Program{Name: "test", Version: "v0", ReportError: func(error) {}})
		if err != nil {
			t.Fatalf("%s cannot read its file: %v\n%s", key, err, text)
		}
		stop()
	}
}

// TestTheServersNamespaceIsEverywhere: nothing of it is left where manifests/server has it.
func TestTheServersNamespaceIsEverywhere(t *testing.T) {
	for key, object := range template(t, append(only("server.enabled", "monitoring.enabled"), "server.namespace=api", "server.tls.create=true")...) {
		if object.GetNamespace() == "gpuctl-server" || key == "Namespace /gpuctl-server" {
			t.Errorf("%s is in the old namespace", key)
		}
	}
}

// TestAnotherConfigurationReplacesThePods: they read it when they start, so its name changes with it.
func TestAnotherConfigurationReplacesThePods(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := "kind: KubeSchedulerConfiguration # {{ not a template }}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := helm(t, "template", "g8s", chart, "--set-file", "scheduler.config="+config)
	if err != nil {
		t.Fatal(err)
	}
	got, shipped := parse(t, out), template(t)
	name := mountedConfig(t, got)
	if name == mountedConfig(t, shipped) {
		t.Errorf("the pods mount %s, as before", name)
	}
	if diff := cmp.Diff(map[string]any{"scheduler-config.yaml": text}, at(t, got, "ConfigMap kube-system/"+name, "data")); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func mountedConfig(t *testing.T, all objects) string {
	t.Helper()
	var volumes []corev1.Volume
	list, _ := at(t, all, schedulerKey, "spec/template/spec").(map[string]any)
	pod := &corev1.PodSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list, pod); err != nil {
		t.Fatal(err)
	}
	volumes = pod.Volumes
	for i := range volumes {
		if volumes[i].Name == "config" {
			return volumes[i].ConfigMap.Name
		}
	}
	t.Fatal("the scheduler mounts no configuration")
	return ""
}

// TestWrongValuesAreRefused before anything is installed, with the path of what is wrong.
func TestWrongValuesAreRefused(t *testing.T) {
	for value, want := range map[string]string{
		"schedular.enabled=false":             "schedular",
		"scheduler.enable=false":              "enable",
		"scheduler.enabled=maybe":             "/scheduler/enabled",
		"scheduler.replicas=0":                "/scheduler/replicas",
		"scheduler.replicas=100":              "/scheduler/replicas",
		"scheduler.image.digest=sha256:abc":   "/scheduler/image/digest",
		"image.tag=a b":                       "/image/tag",
		"image.registry=":                     "/image/registry",
		"image.pullPolicy=Sometimes":          "/image/pullPolicy",
		"agent.replicas=2":                    "replicas",
		"agent.extraArgs[0]=driver-root":      "/agent/extraArgs/0",
		"server.namespace=Upper":              "/server/namespace",
		"server.tls.secretName=../x":          "/server/tls/secretName",
		"ledger.storage.size=lots":            "/ledger/storage/size",
		"scheduler.resources.limits.memory=x": "/scheduler/resources/limits/memory",
		"scheduler.tolerations[0].operater=E": "operater",
		"crds=false":                          "/crds",
	} {
		out, err := helm(t, "template", "g8s", chart, "--set", value)
		if err == nil || !strings.Contains(err.Error(), "values don't meet the specifications of the schema") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v and %d bytes, want one that names %s", value, err, len(out), want)
		}
	}
}

// TestTheSchemaKnowsWhatMayBeSet: no value of values.yaml is missing in the schema, which would refuse it, and every value of
// the schema is there to be read about.
func TestTheSchemaKnowsWhatMayBeSet(t *testing.T) {
	defaults, schema := readYAML(t, chart+"/values.yaml"), readYAML(t, chart+"/values.schema.json")
	definitions, _ := schema["$defs"].(map[string]any)
	delete(schema["properties"].(map[string]any), "global") // Helm's own
	compare(t, "", defaults, schema, definitions)
}

func compare(t *testing.T, path string, value any, schema, definitions map[string]any) {
	t.Helper()
	if name, isRef := schema["$ref"].(string); isRef {
		schema, _ = definitions[strings.TrimPrefix(name, "#/$defs/")].(map[string]any)
	}
	properties, _ := schema["properties"].(map[string]any)
	mapping, isMapping := value.(map[string]any)
	if !isMapping || properties == nil {
		return
	}
	for name, property := range properties {
		if _, there := mapping[name]; !there && !strings.HasSuffix(path, "/requests") && !strings.HasSuffix(path, "/limits") {
			t.Errorf("values.yaml does not tell of %s/%s", path, name)
		}
		below, _ := property.(map[string]any)
		compare(t, path+"/"+name, mapping[name], below, definitions)
	}
	for name := range mapping {
		if properties[name] == nil {
			t.Errorf("the schema refuses %s/%s", path, name)
		}
	}
}

func readYAML(t *testing.T, path string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := parse(t, string(data))
	for _, one := range all {
		return one.Object
	}
	t.Fatalf("%s is empty: %v", path, reflect.TypeOf(all))
	return nil
}
