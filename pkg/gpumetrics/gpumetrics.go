// Package gpumetrics reads the load of each GPU from Prometheus, as NVIDIA's DCGM exporter measures it. Unmeasured values are unknown, never zero.
package gpumetrics

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Metrics of the DCGM exporter.
const (
	// MetricUtilization is the share of time in which a kernel ran on the GPU, in percent.
	MetricUtilization = "DCGM_FI_DEV_GPU_UTIL"
	// MetricMemoryUsed is the memory of the GPU that is in use, in MiB.
	MetricMemoryUsed = "DCGM_FI_DEV_FB_USED"
)

// Timeout bounds one read: a slow Prometheus must not delay what is known without it.
const Timeout = 5 * time.Second

// Sample is the measurement of one GPU.
type Sample struct {
	// UUID is the GPU's UUID from the driver, "" if the exporter omits it.
	UUID string
	// Node is the node's name, and Index the driver's number of the GPU on it.
	Node  string
	Index int
	// Utilization is 0 to 100 percent, nil if it was not measured.
	Utilization *float64
	// MemoryUsedMiB is nil if it was not measured.
	MemoryUsedMiB *float64
}

// Samples are the measurements of all GPUs.
type Samples struct {
	byUUID  map[string]*Sample
	byPlace map[gpuPlace]*Sample
}

type gpuPlace struct {
	node  string
	index int
}

// SampleFor returns the sample of a GPU: by its UUID, or else by its index on a node. It is false if nothing was measured.
func (s Samples) SampleFor(uuid, node string, index int) (Sample, bool) {
	if sample := s.byUUID[uuid]; sample != nil && uuid != "" {
		return *sample, true
	}
	if sample := s.byPlace[gpuPlace{node, index}]; sample != nil {
		return *sample, true
	}
	return Sample{}, false
}

// Client reads from one Prometheus.
type Client struct{ api promv1.API }

// NewClient returns a Client for the Prometheus at a URL. A nil transport selects the default one.
func NewClient(url string, transport http.RoundTripper) (*Client, error) {
	client, err := api.NewClient(api.Config{Address: url, Client: HTTPClient(transport, MaxAnswer)})
	if err != nil {
		return nil, phrase.Errorf("connecting to Prometheus: %w", err)
	}
	return &Client{api: promv1.NewAPI(client)}, nil
}

// ReadSamples returns the newest samples. On an error it also returns what could be read.
func (c *Client) ReadSamples(ctx context.Context, now time.Time) (Samples, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	out := Samples{byUUID: map[string]*Sample{}, byPlace: map[gpuPlace]*Sample{}}
	return out, errors.Join(
		c.queryMetric(ctx, MetricUtilization, now, func(labels model.Metric, value float64) {
			if value <= 100 {
				out.ensureSample(labels).Utilization = &value
			}
		}),
		c.queryMetric(ctx, MetricMemoryUsed, now, func(labels model.Metric, value float64) {
			out.ensureSample(labels).MemoryUsedMiB = &value
		}))
}

// queryMetric calls use with every valid value of a metric.
func (c *Client) queryMetric(ctx context.Context, metric string, now time.Time, use func(model.Metric, float64)) error {
	value, _, err := c.api.Query(ctx, metric, now) // warnings name missing data, which the result shows anyway
	if err != nil {
		return phrase.Errorf("reading %s from Prometheus: %w", metric, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return phrase.Errorf("reading %s from Prometheus: the answer is a %s, want a vector", metric, value.Type())
	}
	for _, sample := range vector {
		if v := float64(sample.Value); !math.IsNaN(v) && !math.IsInf(v, 0) && v >= 0 {
			use(sample.Metric, v)
		}
	}
	return nil
}

// ensureSample returns the sample of the GPU in the labels, and creates it if necessary.
func (s Samples) ensureSample(labels model.Metric) *Sample {
	uuid, at := string(labels[labelUUID]), placeOf(labels)
	found := s.byPlace[at]
	if uuid != "" {
		found = s.byUUID[uuid]
	}
	if found == nil {
		found = &Sample{UUID: uuid, Node: at.node, Index: at.index}
	}
	if uuid != "" {
		s.byUUID[uuid] = found
	}
	s.byPlace[at] = found
	return found
}

// Labels of the exporter, and of Prometheus.
const (
	labelUUID     = "UUID"
	labelIndex    = "gpu"
	labelInstance = "instance"
)

// nodeLabels are the labels that may hold the node's name, the most reliable first: the exporter's own, then those that Prometheus configurations
// add.
var nodeLabels = []model.LabelName{"Hostname", "hostname", "node", "kubernetes_node"}

func placeOf(labels model.Metric) gpuPlace {
	index, err := strconv.Atoi(string(labels[labelIndex]))
	if err != nil {
		index = -1
	}
	at := slices.IndexFunc(nodeLabels, func(name model.LabelName) bool { return labels[name] != "" })
	if at >= 0 {
		return gpuPlace{string(labels[nodeLabels[at]]), index}
	}
	instance := string(labels[labelInstance])
	host, _, _ := net.SplitHostPort(instance) // without a port it is the host itself
	return gpuPlace{cmp.Or(strings.TrimSpace(host), instance), index}
}
