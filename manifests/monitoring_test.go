package manifests

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

const (
	rulesFile      = "monitoring/plain/rules.yaml"
	prometheusRule = "monitoring/prometheusrule.yaml"
	rulesHeader    = `# Made of plain/rules.yaml by go test ./manifests -update: change it there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gpu-scheduler
  namespace: kube-system
spec:
`
)

// TestThePrometheusRuleIsThePlainOne holds the object for the operator to the file for a plain Prometheus.
func TestThePrometheusRuleIsThePlainOne(t *testing.T) {
	plain, err := FS.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	_, groups, found := strings.Cut(string(plain), "\ngroups:\n")
	if !found {
		t.Fatal("there are no groups")
	}
	var want strings.Builder
	want.WriteString(rulesHeader + "  groups:\n")
	for line := range strings.Lines(groups) {
		want.WriteString("  " + line)
	}
	if *update {
		if err := os.WriteFile(prometheusRule, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(prometheusRule)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("%s (-from %s +as it is); -update writes it:\n%s", prometheusRule, rulesFile, diff)
	}
}

// monitor are the fields of ServiceMonitors and PodMonitors that we use, as monitoring.coreos.com/v1 publishes them: an API
// server without the operator knows neither kind, and would tell of no slip.
type monitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		JobLabel          string               `json:"jobLabel"`
		Selector          metav1.LabelSelector `json:"selector"`
		NamespaceSelector struct {
			Any bool `json:"any"`
		} `json:"namespaceSelector"`
		Endpoints           []endpoint `json:"endpoints"`
		PodMetricsEndpoints []endpoint `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

type endpoint struct {
	Port            string `json:"port"`
	Scheme          string `json:"scheme"`
	Interval        string `json:"interval"`
	BearerTokenFile string `json:"bearerTokenFile"`
	HonorLabels     bool   `json:"honorLabels"`
	TLSConfig       struct {
		InsecureSkipVerify bool   `json:"insecureSkipVerify"`
		ServerName         string `json:"serverName"`
		CA                 struct {
			Secret *corev1.SecretKeySelector `json:"secret"`
		} `json:"ca"`
	} `json:"tlsConfig"`
	MetricRelabelings []struct {
		Action       string   `json:"action"`
		SourceLabels []string `json:"sourceLabels"`
		Regex        string   `json:"regex"`
	} `json:"metricRelabelings"`
}

// TestMonitorsFindWhatTheyAreFor holds the selectors and ports of monitors to the Services and pods that we ship.
func TestMonitorsFindWhatTheyAreFor(t *testing.T) {
	ports := portsThatAreServed(t)
	count := 0
	for _, document := range documents(t, "monitoring/monitors.yaml") {
		var m monitor
		if err := yaml.UnmarshalStrict(document, &m); err != nil {
			t.Fatalf("a field that the operator does not know: %v\n%s", err, document)
		}
		for _, e := range append(m.Spec.Endpoints, m.Spec.PodMetricsEndpoints...) {
			count++
			if strings.HasSuffix(m.Name, "dcgm-exporter") {
				continue // it is not ours
			}
			if at := m.Kind + " " + m.Namespace + "/" + m.Spec.Selector.MatchLabels["app.kubernetes.io/name"] + " " + e.Port; !ports[at] {
				t.Errorf("%s looks for %s, which is nowhere among %v", m.Name, at, ports)
			}
			if e.Scheme == "https" && e.BearerTokenFile == "" {
				t.Errorf("%s shows no token to who asks for one", m.Name)
			}
		}
	}
	if count != 7 {
		t.Errorf("looked at %d endpoints, want 7", count)
	}
}

// TestTheExporterOfCardsIsLookedAtOnce whoever has installed it: the pods have the labels that the GPU Operator and the exporter's own
// chart give them.
func TestTheExporterOfCardsIsLookedAtOnce(t *testing.T) {
	plain, err := FS.ReadFile("monitoring/plain/scrape.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kept := regexp.MustCompile(`regex: (gpu-agent;.*dcgm.*)\n`).FindSubmatch(plain)
	if kept == nil {
		t.Fatal("monitoring/plain/scrape.yaml does not say which pods of nodes it keeps")
	}
	keeps := regexp.MustCompile("^(?:" + string(kept[1]) + ")$")
	tests := map[string]struct {
		pod  labels.Set
		want int
	}{
		"the operator's":              {labels.Set{"app": "nvidia-dcgm-exporter"}, 1},
		"the chart's":                 {labels.Set{"app.kubernetes.io/name": "dcgm-exporter", "app.kubernetes.io/instance": "dcgm"}, 1},
		"the chart's, with a label":   {labels.Set{"app.kubernetes.io/name": "dcgm-exporter", "app": "dcgm-exporter"}, 1},
		"the chart's, with another":   {labels.Set{"app.kubernetes.io/name": "dcgm-exporter", "app": "monitoring"}, 1},
		"somebody's without a label":  {labels.Set{}, 0},
		"another program of an owner": {labels.Set{"app": "nvidia-device-plugin-daemonset"}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, document := range documents(t, "monitoring/monitors.yaml") {
				var m monitor
				if err := yaml.UnmarshalStrict(document, &m); err != nil {
					t.Fatal(err)
				}
				selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
				if err != nil {
					t.Fatal(err)
				}
				if m.Spec.NamespaceSelector.Any && selector.Matches(tc.pod) {
					found = append(found, m.Name)
				}
			}
			if len(found) != tc.want {
				t.Errorf("looked at by %v, want %d", found, tc.want)
			}
			if got := keeps.MatchString(tc.pod["app.kubernetes.io/name"] + ";" + tc.pod["app"] + ";metrics"); got != (tc.want == 1) {
				t.Errorf("without the operator it is kept: %t", got)
			}
		})
	}
}

// portsThatAreServed are the ports of Services and of the agent's pods, as monitors find them.
func portsThatAreServed(t *testing.T) map[string]bool {
	t.Helper()
	ports := map[string]bool{}
	namespaces := map[string]string{"ledger/service.yaml": "kube-system", "server/service.yaml": "gpuctl-server"} // by their kustomizations
	for _, file := range []string{"monitoring/services.yaml", "ledger/service.yaml", "server/service.yaml"} {
		for _, document := range documents(t, file) {
			var service corev1.Service
			if err := yaml.UnmarshalStrict(document, &service); err != nil {
				t.Fatal(err)
			}
			namespace := service.Namespace
			if namespace == "" {
				namespace = namespaces[file]
			}
			for _, port := range service.Spec.Ports {
				ports["ServiceMonitor "+namespace+"/"+service.Spec.Selector["app.kubernetes.io/name"]+" "+port.Name] = true
			}
		}
	}
	agent, err := FS.ReadFile("agent/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ports["PodMonitor kube-system/gpu-agent metrics"] = strings.Contains(string(agent), "- name: metrics\n")
	return ports
}
