package jobplan

import (
	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/workload"
)

// WithGeneratedName returns a document that has only a prefix of its job's name with the complete name, ending in suffix. The submitted and stored
// document is then like any other.
func WithGeneratedName(doc workload.Document, suffix string) (workload.Document, error) {
	name := doc.Job.GenerateName + suffix
	source, err := editDocument(doc.Source, func(root *yaml.Node) error {
		section := ensureChild(root, "job")
		for i := 0; i+1 < len(section.Content); i += 2 {
			key, value := section.Content[i], section.Content[i+1]
			if workload.IsSpelling(key.Value, "generate-name") {
				key.Value = "name"
				return replaceNode(value, name)
			}
		}
		return nil
	})
	if err != nil {
		return doc, err
	}
	job := *doc.Job
	job.Name, job.GenerateName = name, ""
	doc.Name, doc.Job, doc.Source = name, &job, source
	return doc, nil
}
