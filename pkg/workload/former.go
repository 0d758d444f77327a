package workload

import "g8s.host/gpu-scheduler/pkg/phrase"

// former is the replacement for a key of the first gpuctl.
type former struct {
	says phrase.Text
	// name is the field that replaces the key in the same section; "" for none.
	name string
}

// formerKeys maps keys of the first gpuctl's documents, by path, to their replacement.
var formerKeys = map[string]former{
	"resources.accelerator-count":    {phrase.Of("it is called \"gpu\""), "gpu"},
	"resources.accelerator":          {phrase.Of("it is called \"gpu-type\""), "gpu-type"},
	"resources.accelerator-type":     {phrase.Of("it is called \"gpu-type\""), "gpu-type"},
	"resources.gpu-memory":           {phrase.Of("it is called \"gpu-share\""), "gpu-share"},
	"service.timeout":                {phrase.Of("it is called \"startup-timeout\", and is how long the job may take until health-check answers"), "startup-timeout"},
	"job.epochs":                     {phrase.Of("give it to the program, in environment.args"), ""},
	"job.batch-size":                 {phrase.Of("give it to the program, in environment.args"), ""},
	"job.user":                       {phrase.Of("who submits the job is noted by itself"), ""},
	"model":                          {phrase.Of("mount the model with storage.workdirs, and name its path in environment.args"), ""},
	"output":                         {phrase.Of("mount a folder for the output with storage.workdirs, and name its path in environment.args"), ""},
	"environment.image-pull-secrets": {phrase.Of("it is called \"image-pull-secret\", and names one Secret"), "image-pull-secret"},
	"environment.working-dir":        {phrase.Of("begin the command with a change of the folder: command: [sh, -c, \"cd /work && python train.py\"]"), ""},
	"storage.volumes":                {phrase.Of("mounts are storage.workdirs, or sections with names of their own"), ""},
	"metadata.labels":                {phrase.Of("labels of nodes are set with gpuctl label"), ""},
}

// formerly returns the replacement hint for a key of the first gpuctl, and the field that replaces it; empty for other keys.
func formerly(path, key string) (hint phrase.Text, name string) {
	for full, instead := range formerKeys {
		if section, name := splitPath(full); section == path && Spells(key, name) {
			return phrase.Of(" (%s)", instead.says), instead.name
		}
	}
	return nil, ""
}
