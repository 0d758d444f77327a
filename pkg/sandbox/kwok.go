package sandbox

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	nameKwok = "kwok"

	// nodeLeaseSeconds is a kubelet's lease; a fourth of it is the time between two renewals.
	nodeLeaseSeconds = 40
)

// Annotations of pods on simulated nodes, as durations of Go ("90s", "1h"). They say what the containers do.
const (
	// AnnotationStartDelay is how long a bound pod takes to run. Default: no time.
	AnnotationStartDelay = "sandbox.g8s.host/start-delay"
	// AnnotationRunFor is how long it runs until it succeeds. Default: forever.
	AnnotationRunFor = "sandbox.g8s.host/run-for"
	// AnnotationFailAfter is how long it runs until it fails. It wins over AnnotationRunFor.
	AnnotationFailAfter = "sandbox.g8s.host/fail-after"
	// AnnotationExitCode is the exit code of a failed pod's containers. Default: 1.
	AnnotationExitCode = "sandbox.g8s.host/exit-code"
	// AnnotationFailReason is the reason shown for a failed pod's containers. Default: Error.
	AnnotationFailReason = "sandbox.g8s.host/fail-reason"
	// AnnotationStopAfter is how long the containers of a deleted pod take to end. Default: no time. Those that take as
	// long as the pod's grace period are killed at its end, with exit code 137.
	AnnotationStopAfter = "sandbox.g8s.host/stop-after"
	// AnnotationStopExitCode is the exit code of containers that end because their pod is deleted. Default: 143, that of
	// a program that SIGTERM ends. With 0 the pod has succeeded.
	AnnotationStopExitCode = "sandbox.g8s.host/stop-exit-code"
)

// annotationSimulated, on a node, makes it kwok's.
const (
	annotationSimulated      = "kwok.x-k8s.io/node"
	annotationSimulatedValue = "fake"
)

//go:embed assets/stages.yaml
var kwokStages []byte

// startKwok starts kwok, which plays the kubelet of every simulated node.
func (s *Sandbox) startKwok(ctx context.Context) error {
	kubeconfig, err := s.componentKubeconfig(nameKwok)
	if err != nil {
		return err
	}
	if s.kwokPort, err = s.portOfKwok(); err != nil {
		return err
	}
	podPort, err := s.startPodServer()
	if err != nil {
		return err
	}
	config, err := kwokConfig(s.podLog(), podPort)
	if err != nil {
		return err
	}
	configPath := filepath.Join(s.dir, "kwok.yaml")
	if err := writeFile(configPath, config); err != nil {
		return err
	}
	if err := s.WritePodLog(podLogIntroduction...); err != nil {
		return err
	}
	if _, err = s.StartProcess(ctx, ProcessSpec{
		Name:  nameKwok,
		Path:  filepath.Join(s.options.BinDir, nameKwok),
		Args:  kwokArgs(kubeconfig, configPath, s.kwokPort, s.kubeletPort),
		Port:  s.kwokPort,
		Ready: HTTPReady(fmt.Sprintf("http://127.0.0.1:%d/healthz", s.kwokPort)),
	}); err != nil {
		return err
	}
	s.ReportProgress("kwok is ready")
	if s.options.HostExec {
		return s.startKubelet()
	}
	return nil
}

// portOfKwok is the nodes' own port, unless a proxy is in front of kwok.
func (s *Sandbox) portOfKwok() (int, error) {
	if s.options.HostExec {
		return FreePort("127.0.0.1")
	}
	return s.kubeletPort, nil
}

func kwokArgs(kubeconfig, config string, port, nodePort int) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--config=" + config,
		"--manage-nodes-with-annotation-selector=" + annotationSimulated + "=" + annotationSimulatedValue,
		"--manage-nodes-with-label-selector=" + LabelKubelet + "!=" + KubeletStopped,
		"--server-address=127.0.0.1:" + strconv.Itoa(port),
		"--node-ip=127.0.0.1",
		"--node-port=" + strconv.Itoa(nodePort),
		"--node-lease-duration-seconds=" + strconv.Itoa(nodeLeaseSeconds),
		"--cidr=10.244.0.0/16",
	}
}

// kwokConfig is the stages, the options, and where logs and ports of all pods lead.
func kwokConfig(podLog string, podPort int) ([]byte, error) {
	objects := []map[string]any{
		kwokObject("KwokConfiguration", "config.kwok.x-k8s.io/v1alpha1", "options", map[string]any{
			"enableDebuggingHandlers":  true, // logs and port-forward
			"podPlayStageParallelism":  16,
			"nodePlayStageParallelism": 16,
			// A slow renewal delays only its own node, as on separate machines, though the API server takes a second for each.
			"nodeLeaseParallelism": 64,
			// Without these workers kwok processes the pods of a returning node only when they change.
			"podsOnNodeSyncParallelism": 4,
		}),
		kwokObject("ClusterLogs", "kwok.x-k8s.io/v1alpha1", "spec", map[string]any{
			"logs": []any{map[string]any{"logsFile": podLog, "previousLogsFile": podLog}},
		}),
		kwokObject("ClusterPortForward", "kwok.x-k8s.io/v1alpha1", "spec", map[string]any{
			"forwards": []any{map[string]any{"target": map[string]any{"address": "127.0.0.1", "port": podPort}}},
		}),
	}
	buf := bytes.NewBuffer(bytes.Clone(kwokStages))
	for _, object := range objects {
		data, err := yaml.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("writing kwok's configuration: %w", err)
		}
		buf.WriteString("---\n")
		buf.Write(data)
	}
	return buf.Bytes(), nil
}

func kwokObject(kind, apiVersion, field string, value any) map[string]any {
	return map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "sandbox"}, field: value,
	}
}

var podLogIntroduction = []string{
	"This pod runs on a simulated node (kwok): it was really submitted and scheduled, but no container runs.",
	"Every simulated pod shows this log. What the pod does is set by annotations on it, also while it runs",
	"(kubectl annotate pod NAME ANNOTATION=VALUE):",
	"  " + AnnotationRunFor + "=90s        it succeeds after that time (default: it runs forever)",
	"  " + AnnotationFailAfter + "=90s     it fails after that time",
	"  " + AnnotationStartDelay + "=5s     it takes that time to start",
	"  " + AnnotationStopAfter + "=10s     it takes that time to end when it is deleted (default: none)",
}

func (s *Sandbox) podLog() string { return filepath.Join(s.dir, "logs", "pods.log") }

// WritePodLog appends lines to the log that every simulated pod shows, including to clients that follow it.
func (s *Sandbox) WritePodLog(lines ...string) error {
	var buf bytes.Buffer
	now := time.Now().UTC().Format(time.RFC3339Nano)
	for _, line := range lines {
		fmt.Fprintf(&buf, "%s stdout F %s\n", now, line) // the format of container runtimes (CRI)
	}
	f, err := os.OpenFile(s.podLog(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the pods' log: %w", err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("writing the pods' log: %w", err)
	}
	return nil
}
