package workload

func checkService(d *decoder, j *Job) {
	if j.Kind == KindNotebook && d.has("service.replicas") {
		if j.Service.Replicas == 1 {
			d.warnf(d.keys["service.replicas"], "a notebook always has one replica: service.replicas may be left out")
		} else {
			d.errorf(d.valueAt("service.replicas"), "service.replicas: a notebook has exactly one replica")
		}
	}
	checkAutoscaling(d, j)
}

// checkAutoscaling checks the bounds of the replicas, and that there is something to measure.
func checkAutoscaling(d *decoder, j *Job) {
	const at = "service.autoscaling"
	a := j.Service.Autoscaling
	if a == nil || !d.isSection(at) {
		return
	}
	if a.Max != 0 && a.Min > a.Max {
		d.errorf(d.valueAt(at+".min"), "service.autoscaling.min is %d, more than max, which is %d", a.Min, a.Max)
	}
	if !d.has(at+".cpu-utilization") && !d.has(at+".gpu-utilization") {
		d.errorf(d.keys[at], "service.autoscaling needs a measure: write \"cpu-utilization: 80\" or \"gpu-utilization: 70\"")
	}
}
