package render

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/workload"
)

// GPUUtilizationMetric is the pod metric for autoscaling by GPU: the percentage of time that the pod's GPUs were busy, averaged over them, under the
// name that NVIDIA's DCGM exporter uses. Something in the cluster, usually prometheus-adapter, must serve it in custom.metrics.k8s.io.
const GPUUtilizationMetric = "DCGM_FI_DEV_GPU_UTIL"

// AutoscalerName returns the name of the HorizontalPodAutoscaler of a job.
func AutoscalerName(job string) string {
	return "hpa-" + job
}

func (r *renderer) newAutoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	a := r.job.Service.Autoscaling
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: r.objectMeta(AutoscalerName(r.job.Name)),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: "apps/v1", Kind: "Deployment", Name: TopName(r.job.Kind, r.job.Name),
			},
			MinReplicas: ptr.To(a.Min), MaxReplicas: a.Max, Metrics: scalingMetrics(a),
		},
	}
}

// scalingMetrics are the metrics for the number of replicas. Of two, the one that requests more replicas wins.
func scalingMetrics(a *workload.Autoscaling) []autoscalingv2.MetricSpec {
	var out []autoscalingv2.MetricSpec
	if a.CPU != nil {
		out = append(out, autoscalingv2.MetricSpec{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.UtilizationMetricType, AverageUtilization: a.CPU,
			}},
		})
	}
	if a.GPU != nil {
		out = append(out, autoscalingv2.MetricSpec{
			Type: autoscalingv2.PodsMetricSourceType,
			Pods: &autoscalingv2.PodsMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: GPUUtilizationMetric},
				Target: autoscalingv2.MetricTarget{
					Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(int64(*a.GPU), resource.DecimalSI),
				},
			},
		})
	}
	return out
}
