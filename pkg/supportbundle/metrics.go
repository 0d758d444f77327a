package supportbundle

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"g8s.host/gpu-scheduler/pkg/doctor"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

const (
	// maxMetricsBytes limits the metrics of one pod in bytes; those of a scheduler on 1,000 nodes are a tenth of it.
	maxMetricsBytes = 4 << 20
	// podMetricsTimeout is the time limit for one pod, and allMetricsTimeout that for all of them.
	podMetricsTimeout = 5 * time.Second
	allMetricsTimeout = time.Minute
	// unauthenticatedNote explains a refusal by programs that authenticate their callers: the API server's proxy does not forward the caller's
	// identity.
	unauthenticatedNote = "the program does not learn from the API server who asks. Prometheus may have its metrics"
)

// addMetrics adds the metrics of our pods, as far as the API server's proxy may read them.
func (b *Bundler) addMetrics(ctx context.Context, pods []any) error {
	within, cancel := context.WithTimeout(ctx, allMetricsTimeout)
	defer cancel()
	taken, _ := podsWithLogs(b.Server, pods)
	for _, object := range taken {
		pod, err := decodePod(object)
		if err != nil {
			return err
		}
		port := pod.metricsPort()
		if port == "" {
			continue
		}
		namespace, name := pod.Metadata.Namespace, pod.Metadata.Name
		b.Report(phrase.Textf("the metrics of %s/%s", namespace, name))
		if err := b.addPodMetrics(within, namespace, name, port); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (b *Bundler) addPodMetrics(ctx context.Context, namespace, name, port string) error {
	file := path.Join("metrics", namespace, name+".txt")
	ctx, cancel := context.WithTimeout(ctx, podMetricsTimeout)
	defer cancel()
	data, err := b.getPath(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+port+"/proxy/metrics", nil, maxMetricsBytes)
	if err != nil {
		said := RedactText(err.Error())
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			said += ": either you may not get pods/proxy, or " + unauthenticatedNote
		}
		b.entries = append(b.entries, Entry{Name: file, What: "its metrics", Error: said})
		return nil
	}
	return b.addFile(file, "its metrics", []byte(RedactText(string(data))))
}

// pod contains the fields needed to locate a pod's metrics. Redaction has changed other fields.
type pod struct {
	Metadata struct{ Namespace, Name string }
	Spec     struct {
		Containers []struct{ Ports []corev1.ContainerPort }
	}
	Status struct{ Phase corev1.PodPhase }
}

func decodePod(object any) (*pod, error) {
	read := &pod{}
	data, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(data, read)
	}
	if err != nil {
		return nil, phrase.Errorf("reading a pod: %w", err)
	}
	return read, nil
}

// metricsPort returns a pod's metrics port in the notation of the API server's proxy, or "" if the pod has none or does not run.
func (p *pod) metricsPort() string {
	scheme := "https:"
	if doctor.IsAgentObject(p.Metadata.Namespace, p.Metadata.Name) {
		scheme = ""
	}
	for _, container := range p.Spec.Containers {
		for _, port := range container.Ports {
			if (port.Name == "https" || port.Name == "metrics") && p.Status.Phase == corev1.PodRunning {
				return fmt.Sprintf("%s%s:%d", scheme, p.Metadata.Name, port.ContainerPort)
			}
		}
	}
	return ""
}
