package series

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as gpu-scheduler has them
	_ "k8s.io/component-base/metrics/prometheus/version"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"g8s.host/gpu-scheduler/test/bench/load/cycle"
	"g8s.host/gpu-scheduler/test/fixture"
)

// statuses are what plugins answer with, of which each is a series.
var statuses = []fwk.Code{fwk.Success, fwk.Unschedulable, fwk.Skip}

// scheduler is what gpu-scheduler shows: our metrics, after attempts with the shipped configuration, and kube-scheduler's with all
// values that their labels have in it.
func scheduler(t *testing.T) string {
	t.Helper()
	world := &cycle.World{}
	for _, node := range nodes() {
		world.Nodes = append(world.Nodes, &node)
	}
	c, err := cycle.New(t.Context(), world, cycle.Setup{Config: "../../../manifests/scheduler/scheduler-config.yaml", List: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range poolCount {
		if err := c.Place(t.Context(), podOf(fmt.Sprint("placed", i), 1, poolName(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Refuse(t.Context(), podOf("too-large", 9, poolName(0))); err != nil {
		t.Fatal(err)
	}
	for name, profile := range c.Scheduler.Profiles {
		fillAttempts(name)
		fillPlugins(t, name, profile.ListPlugins())
	}
	fillQueue()
	fillRequests(t.Context())
	return written(t, legacyregistry.DefaultGatherer)
}

func podOf(name string, gpus int64, pool string) *corev1.Pod {
	pod := fixture.Pod(name).GPUs(gpus).Pool(pool).Obj()
	pod.Namespace, pod.UID = "default", types.UID(name)
	return pod
}

func fillAttempts(profile string) {
	metrics.PodScheduled(profile, 1)
	metrics.PodUnschedulable(profile, 1)
	metrics.PodScheduleError(profile, 1)
	for _, point := range metrics.ExtensionPoints {
		metrics.FrameworkExtensionPointDuration.WithLabelValues(point, fwk.Success.String(), profile).Observe(1)
	}
	for _, refusing := range []string{metrics.PreFilter, metrics.Filter, metrics.PostFilter, metrics.Permit, metrics.Reserve, metrics.PreBind} {
		metrics.FrameworkExtensionPointDuration.WithLabelValues(refusing, fwk.Unschedulable.String(), profile).Observe(1)
	}
	for attempt := range 15 { // more are told as 15+
		metrics.PodSchedulingSLIDuration.WithLabelValues(fmt.Sprint(attempt + 1)).Observe(1)
	}
	for _, status := range statuses {
		metrics.PermitWaitDuration.WithLabelValues(status.String()).Observe(1)
	}
}

// fillPlugins fills what is counted by plugin: each at each point where it is enabled.
func fillPlugins(t *testing.T, profile string, enabled *config.Plugins) {
	t.Helper()
	recorder := metrics.NewMetricsAsyncRecorder(1000, time.Hour, t.Context().Done())
	points, all := reflect.ValueOf(*enabled), map[string]bool{}
	for i := range points.NumField() {
		set, ok := points.Field(i).Interface().(config.PluginSet)
		if !ok {
			continue
		}
		for _, plugin := range set.Enabled {
			all[plugin.Name] = true
			point := points.Type().Field(i).Name
			metrics.PluginEvaluationTotal.WithLabelValues(plugin.Name, point, profile).Inc()
			for _, status := range statuses {
				metrics.PluginExecutionDuration.WithLabelValues(plugin.Name, point, status.String()).Observe(1)
			}
		}
	}
	for plugin := range all {
		metrics.UnschedulableReason(plugin, profile).Inc()
		for _, event := range []string{"AssignedPodDelete", "NodeAdd", "NodeUpdate"} {
			for _, hint := range []string{metrics.QueueingHintResultQueue, metrics.QueueingHintResultQueueSkip} {
				recorder.ObserveQueueingHintDurationAsync(plugin, event, hint, 1)
			}
		}
	}
	recorder.FlushMetrics()
}

// fillQueue fills what is counted by event.
func fillQueue() {
	resources := []string{
		"AssignedPod", "UnscheduledPod", "Node", "PersistentVolume", "PersistentVolumeClaim", "CSINode", "CSIDriver",
		"CSIStorageCapacity", "StorageClass", "ResourceClaim", "ResourceSlice", "DeviceClass",
	}
	events := []string{metrics.PodPoppedInFlightEvent, "ScheduleAttemptFailure", "BackoffComplete", "ForceActivate", "UnschedulableTimeout"}
	for _, resource := range resources {
		for _, what := range []string{"Add", "Update", "Delete"} {
			events = append(events, resource+what)
		}
	}
	for _, event := range events {
		metrics.EventHandlingLatency.WithLabelValues(event).Observe(1)
		metrics.InFlightEvents.WithLabelValues(event).Inc()
		for _, queue := range []string{"active", "backoff", "unschedulable", "gated"} {
			metrics.SchedulerQueueIncomingPods.WithLabelValues(queue, event).Inc()
		}
	}
}

// fillRequests fills what is counted of requests to the API server.
func fillRequests(ctx context.Context) {
	const host = "10.96.0.1:443"
	for _, verb := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		clientmetrics.RequestLatency.Observe(ctx, verb, url.URL{Scheme: "https", Host: host}, time.Second)
		clientmetrics.RateLimiterLatency.Observe(ctx, verb, url.URL{Scheme: "https", Host: host}, time.Second)
		clientmetrics.RequestSize.Observe(ctx, verb, host, 1)
		clientmetrics.ResponseSize.Observe(ctx, verb, host, 1)
		for _, code := range []string{"200", "201", "403", "404", "409", "429", "500"} {
			clientmetrics.RequestResult.Increment(ctx, code, verb, host)
		}
	}
}
