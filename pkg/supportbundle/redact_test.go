package supportbundle

import (
	"encoding/json"
	"strings"
	"testing"
)

// planted is in every secret of these tests, and must be in nothing that comes out.
const planted = "S3cr3tPlanted9"

func TestTextTakesSecretsOut(t *testing.T) {
	tests := map[string]struct{ text, stays string }{
		"a token of a flag":           {"gpu-agent --token=" + planted + " --v=2", "--v=2"},
		"a variable":                  {"WANDB_API_KEY=" + planted + " started", "started"},
		"JSON in a log":               {`{"msg":"x","password":"` + planted + `","n":1}`, `"n":1`},
		"JSON in a string of JSON":    {`"{\"client_secret\": \"` + planted + `\", \"n\": 1}"`, `\"n\": 1`},
		"a password with signs":       {`password: "a),;}` + planted + `" next`, "next"},
		"and without quotes":          {"password=a),;}" + planted + " next", "next"},
		"YAML":                        {"accessKey: " + planted + "\nregion: r", "region: r"},
		"a header":                    {"Authorization: Bearer " + planted + "AAAA", "Bearer "},
		"a URL with a password":       {"GET https://ada:" + planted + "@registry.example/v2/", "registry.example/v2/"},
		"a URL with a token alone":    {"https://" + planted + "@github.com/a/b", "github.com/a/b"},
		"a URL with a query":          {"https://s3/x?X-Amz-Signature=" + planted + "&n=1", "&n=1"},
		"a token of a cluster":        {"token eyJhbGciOiJSUzI1NiJ9.eyJ" + planted + "." + planted + " used", "used"},
		"a key of a cloud":            {"AKIAIOSFODNN7EXAMPLE", ""},
		"a token of a model hub":      {"login hf_" + planted + "AAAAAAAAAA done", "done"},
		"a private key":               {"-----BEGIN RSA PRIVATE KEY-----\n" + planted + "\n-----END RSA PRIVATE KEY-----\nafter", "after"},
		"a private key that is cut":   {"before -----BEGIN PRIVATE KEY-----\n" + planted, "before"},
		"a flag and its value":        {`sh -c "run --api-key ` + planted + ` --n 1"`, "--n 1"},
		"a flag in JSON":              {`["run", "--wandb-api-key", "` + planted + `", "--n"]`, "--n"},
		"a login":                     {"wandb login 0123456789abcdef0123456789abcdef01234567 done", "done"},
		"a password of MySQL":         {"mysql -h db -p" + planted + " -e x", "-e x"},
		"a password of curl":          {"curl -s -u ada:" + planted + " https://h/", "https://h/"},
		"a short name":                {"MYSQL_PWD=" + planted + " DB_PASS=" + planted + " go", "go"},
		"a connection of a cloud":     {"AccountName=a;AccountKey=" + planted, "AccountName=a"},
		"a signature in a query":      {"https://s.example/x?se=1&sig=" + planted + "&n=1", "&n=1"},
		"a header with a key":         {"X-Api-Key: " + planted + "\nnext", "next"},
		"a command that is not there": {`Error: failed to start: exec: "wandb login ` + planted + `": stat wandb: no such file`, "no such file"},
		"what is none":                {"0/12 nodes are available: 12 too few GPUs are free", "12 too few GPUs are free"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := RedactText(tc.text)
			if strings.Contains(got, planted) || strings.Contains(got, "AKIAIOSF") || strings.Contains(got, "0123456789abcdef") || !strings.Contains(got, tc.stays) {
				t.Errorf("%q becomes %q, want it without the secret and with %q", tc.text, got, tc.stays)
			}
			if again := RedactText(got); again != got {
				t.Errorf("a second time it becomes %q", again)
			}
		})
	}
}

func TestObjectTakesSecretsOut(t *testing.T) {
	tests := map[string]struct {
		object string
		stays  []string
	}{
		"variables": {`{"spec":{"containers":[{"name":"c","env":[{"name":"HARMLESS_NAME","value":"` + planted + `"},{"name":"FROM","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]}}`,
			[]string{"HARMLESS_NAME", "secretKeyRef", `"name":"s"`}},
		"annotations of others": {`{"metadata":{"annotations":{"example.com/x":"` + planted + `","kubectl.kubernetes.io/last-applied-configuration":"` + planted + `","g8s.host/submitted":"` + planted + `","g8s.host/gpu-share":"2Gi"}}}`,
			[]string{"example.com/x", `"g8s.host/gpu-share":"2Gi"`}},
		"arguments":               {`{"metadata":{"namespace":"kube-system","name":"gpu-agent-x7k2p"},"args":["--user=a","--api-token","` + planted + `","--n=1","--password=` + planted + `"],"command":["sh","-c","export HF_TOKEN=` + planted + `; run"]}`, []string{"--user=a", "--n=1", "run"}},
		"a Secret, if there were": {`{"kind":"Secret","data":{"x":"` + planted + `"},"stringData":{"y":"` + planted + `"}}`, []string{"Secret"}},
		"a configuration of ours": {`{"kind":"ConfigMap","data":{"scheduler-config.yaml":"profiles: []\nqps: 5\npassword: ` + planted + `"}}`, []string{"profiles: []", "qps: 5"}},
		"fields of managers":      {`{"metadata":{"managedFields":[{"f":"` + planted + `"}],"name":"n"}}`, []string{`"name":"n"`}},
		"an event":                {`{"message":"pulling https://u:` + planted + `@registry/x failed"}`, []string{"registry/x failed"}},
		"shapes that are wrong":   {`{"env":"x","annotations":["a"],"args":{"a":1},"command":"run","data":5}`, []string{`"args":"REMOVED"`}},
		"commands of users": {`{"metadata":{"namespace":"ml","name":"gpu-scheduler-1"},"spec":{"containers":[{"name":"c","image":"i:1","command":["sh","-c","wandb login ` + planted + `"],
			"args":["mysql","-p` + planted + `","--wandb-key","` + planted + `","curl","-u","ada:` + planted + `"],
			"lifecycle":{"postStart":{"exec":{"command":["notify","` + planted + `"]}}},
			"readinessProbe":{"httpGet":{"port":80,"httpHeaders":[{"name":"X-Api-Key","value":"` + planted + `"}]}}}]}}`,
			[]string{`"image":"i:1"`, "X-Api-Key", `"port":80`}},
		"what a container said last": {`{"state":{"terminated":{"exitCode":1,"reason":"Error","message":"` + planted + `"}}}`, []string{`"reason":"Error"`}},
		"what a probe said":          {`{"reason":"Unhealthy","message":"` + planted + `","count":3}`, []string{`"count":3`}},
		"attributes of a volume":     {`{"csi":{"driver":"d","volumeAttributes":{"login":"` + planted + `"}}}`, []string{`"driver":"d"`}},
		"kube-system, not ours":      {`{"metadata":{"namespace":"kube-system","name":"a-pod"},"args":["-p` + planted + `"]}`, []string{"a-pod"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var object any
			if err := json.Unmarshal([]byte(tc.object), &object); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(RedactObject("gpuctl-server", object))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(got), planted) {
				t.Errorf("the secret stays: %s", got)
			}
			for _, want := range tc.stays {
				if !strings.Contains(string(got), want) {
					t.Errorf("%s lacks %s", got, want)
				}
			}
		})
	}
}
