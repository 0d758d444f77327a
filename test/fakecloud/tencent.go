package fakecloud

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tencent speaks Tencent Cloud's API 3.0 of CVM, as far as machines of SpotPools need it, strictly: unknown fields, signatures
// that do not fit and requests that are too old are refused. Errors repeat what they were sent, as clouds' may.
type Tencent struct {
	Cloud *Cloud
	// Keys are the secret keys by their IDs, Region the only one.
	Keys   map[string]string
	Region string
	// Delay is how long each answer takes.
	Delay time.Duration
	// Fail, if set, is asked for a code to refuse a call with.
	Fail func(action string) (code string)
}

var authorization = regexp.MustCompile(`^TC3-HMAC-SHA256 Credential=([^/]+)/([0-9-]+)/cvm/tc3_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$`)

type refusal struct{ code, message string }

func (r refusal) Error() string { return r.code }

func (s *Tencent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	select {
	case <-time.After(s.Delay):
	case <-r.Context().Done():
		return
	}
	answer, err := s.serve(r, body)
	if errors.Is(err, ErrLost) {
		if hijacker, ok := w.(http.Hijacker); ok {
			if connection, _, err := hijacker.Hijack(); err == nil {
				_ = connection.Close()
			}
		}
		return
	}
	if err != nil {
		var why refusal
		if !errors.As(err, &why) {
			why = codeOf(err)
		}
		answer = map[string]any{"Error": map[string]string{
			"Code": why.code, "Message": fmt.Sprintf("%s: %s %s", why.message, r.Header.Get("Authorization"), body),
		}}
	}
	answer["RequestId"] = "request-1"
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"Response": answer})
}

// codeOf is the code of an error of the cloud.
func codeOf(err error) refusal {
	for is, code := range map[error]string{
		ErrThrottled: "RequestLimitExceeded", ErrSoldOut: "ResourceInsufficient.SpecifiedInstanceType",
		ErrRefused: "InvalidParameterValue.InstanceTypeNotSupported", ErrDenied: "UnauthorizedOperation",
	} {
		if errors.Is(err, is) {
			return refusal{code, "it is refused"}
		}
	}
	return refusal{"InternalError", err.Error()}
}

func (s *Tencent) serve(r *http.Request, body []byte) (map[string]any, error) {
	if err := s.check(r, body); err != nil {
		return nil, err
	}
	action := r.Header.Get("X-TC-Action")
	if s.Fail != nil {
		if code := s.Fail(action); code != "" {
			return nil, refusal{code, "it was to fail"}
		}
	}
	switch action {
	case "RunInstances":
		return s.run(body)
	case "DescribeInstances":
		return s.describe(body)
	case "TerminateInstances":
		return s.terminate(body)
	}
	return nil, refusal{"InvalidAction", "there is no such action"}
}

// check checks who sent a request, and its signature (TC3-HMAC-SHA256).
func (s *Tencent) check(r *http.Request, body []byte) error {
	parts := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if parts == nil {
		return refusal{"AuthFailure.InvalidAuthorization", "the header cannot be read"}
	}
	id, date, signed, signature := parts[1], parts[2], parts[3], parts[4]
	key, ok := s.Keys[id]
	if !ok {
		return refusal{"AuthFailure.SecretIdNotFound", "there is no such id"}
	}
	sent, err := strconv.ParseInt(r.Header.Get("X-TC-Timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(sent, 0)).Abs() > 5*time.Minute || time.Unix(sent, 0).UTC().Format(time.DateOnly) != date {
		return refusal{"AuthFailure.SignatureExpire", "it is too old"}
	}
	var headers strings.Builder
	for name := range strings.SplitSeq(signed, ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		headers.WriteString(name + ":" + value + "\n")
	}
	canonical := strings.Join([]string{r.Method, "/", r.URL.RawQuery, headers.String(), signed, hash(body)}, "\n")
	text := strings.Join([]string{"TC3-HMAC-SHA256", r.Header.Get("X-TC-Timestamp"), date + "/cvm/tc3_request", hash([]byte(canonical))}, "\n")
	want := mac(mac(mac(mac([]byte("TC3"+key), date), "cvm"), "tc3_request"), text)
	if !hmac.Equal([]byte(hex.EncodeToString(want)), []byte(signature)) {
		return refusal{"AuthFailure.SignatureFailure", "the signature does not fit"}
	}
	if r.Header.Get("X-TC-Version") != "2017-03-12" || r.Header.Get("X-TC-Region") != s.Region {
		return refusal{"InvalidParameterValue", "another version or region"}
	}
	return nil
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

type tencentTag struct{ Key, Value string }

// runRequest has the fields that are known. There is none for a password.
type runRequest struct {
	InstanceChargeType    string
	InstanceMarketOptions *struct {
		MarketType  string
		SpotOptions struct{ MaxPrice, SpotInstanceType string }
	}
	Placement    struct{ Zone string }
	InstanceType string
	ImageId      string //nolint:revive // as the API has it
	SystemDisk   *struct {
		DiskType string
		DiskSize int64
	}
	VirtualPrivateCloud struct{ VpcId, SubnetId string } //nolint:revive // as the API has it
	InternetAccessible  *internetAccessible
	InstanceCount       int64
	InstanceName        string
	LoginSettings       struct {
		KeyIds         []string //nolint:revive // as the API has it
		KeepImageLogin string
	}
	SecurityGroupIds []string //nolint:revive // as the API has it
	ClientToken      string
	HostName         string
	TagSpecification []struct {
		ResourceType string
		Tags         []tencentTag
	}
	UserData    string
	CamRoleName string
}

type internetAccessible struct {
	InternetChargeType      string
	InternetMaxBandwidthOut int64
	PublicIpAssigned        *bool  //nolint:revive // as the API has it
	BandwidthPackageId      string //nolint:revive // as the API has it
}

// check refuses what the API does.
func (i *internetAccessible) check() error {
	charges := []string{"BANDWIDTH_PREPAID", "TRAFFIC_POSTPAID_BY_HOUR", "BANDWIDTH_POSTPAID_BY_HOUR", "BANDWIDTH_PACKAGE"}
	switch {
	case i == nil:
	case !slices.Contains(charges, i.InternetChargeType) || (i.InternetChargeType == "BANDWIDTH_PACKAGE") != (i.BandwidthPackageId != ""):
		return refusal{"InvalidParameterCombination", "no such way to pay for the internet"}
	case i.InternetMaxBandwidthOut == 0 && i.PublicIpAssigned != nil && *i.PublicIpAssigned:
		return refusal{"InvalidParameterCombination", "a public address needs bandwidth"}
	}
	return nil
}

// isPublic reports whether a public address is assigned, which is the default where there is bandwidth.
func (i *internetAccessible) isPublic() bool {
	return i != nil && i.InternetMaxBandwidthOut > 0 && (i.PublicIpAssigned == nil || *i.PublicIpAssigned)
}

func (s *Tencent) run(body []byte) (map[string]any, error) {
	var q runRequest
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	data, err := q.check()
	if err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for _, specification := range q.TagSpecification {
		for _, tag := range specification.Tags {
			tags[tag.Key] = tag.Value
		}
	}
	id, err := s.Cloud.Run(Order{
		Token: q.ClientToken, Name: q.HostName, Type: q.InstanceType, Zone: q.Placement.Zone, Tags: tags, UserData: string(data),
		Public: q.InternetAccessible.isPublic(),
	})
	if err != nil {
		return nil, err
	}
	return map[string]any{"InstanceIdSet": []string{id}}, nil
}

// check refuses what the API does, and what would make up a password. It returns the user data.
func (q *runRequest) check() ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(q.UserData)
	isSpot := q.InstanceChargeType == "SPOTPAID"
	switch {
	case err != nil || len(data) > 16<<10:
		return nil, refusal{"InvalidParameterValue.InvalidUserDataFormat", "not base64, or too long"}
	case len(q.ClientToken) > 64:
		return nil, refusal{"InvalidClientToken.TooLong", "the token is too long"}
	case q.InstanceCount != 1 || len(q.HostName) < 2 || len(q.HostName) > 60:
		return nil, refusal{"InvalidParameterValue", "the count or the host name"}
	case slices.Contains([]string{q.Placement.Zone, q.ImageId, q.VirtualPrivateCloud.VpcId, q.VirtualPrivateCloud.SubnetId}, ""):
		return nil, refusal{"MissingParameter", "something is missing"}
	case len(q.LoginSettings.KeyIds) == 0 && q.LoginSettings.KeepImageLogin != "TRUE":
		return nil, refusal{"InvalidParameterCombination", "a password would be made up"}
	case len(q.LoginSettings.KeyIds) > 0 && q.LoginSettings.KeepImageLogin != "":
		return nil, refusal{"InvalidParameterCombination", "keys and the image's own login exclude each other"}
	case strings.HasPrefix(q.ImageId, publicImages) && q.LoginSettings.KeepImageLogin != "":
		return nil, refusal{"InvalidParameterCombination", "a public image has no login of its own"}
	case !isSpot && (q.InstanceChargeType != "POSTPAID_BY_HOUR" || q.InstanceMarketOptions != nil):
		return nil, refusal{"InvalidParameterCombination", "only spot machines have a price"}
	}
	return data, q.InternetAccessible.check()
}

// publicImages is how the names of those images begin here that are the cloud's own.
const publicImages = "img-public"

type describeRequest struct {
	InstanceIds []string //nolint:revive // as the API has it
	Filters     []struct {
		Name   string
		Values []string
	}
	Offset int
	Limit  int
}

// wanted is what the filters ask for: tags, or IDs.
func (q *describeRequest) wanted() (tags map[string]string, ids []string, err error) {
	tags, ids = map[string]string{}, q.InstanceIds
	for _, filter := range q.Filters {
		name, isTag := strings.CutPrefix(filter.Name, "tag:")
		switch {
		case len(filter.Values) < 1 || len(filter.Values) > 5:
			return nil, nil, refusal{"InvalidFilterValue.LimitExceeded", "a filter has 1 to 5 values"}
		case isTag:
			tags[name] = filter.Values[0]
		case filter.Name == "instance-id":
			ids = filter.Values
		default:
			return nil, nil, refusal{"InvalidFilter", "only tags and IDs are known"}
		}
	}
	if len(ids) > 0 {
		tags = map[string]string{"no such tag": "at all"}
	}
	return tags, ids, nil
}

func (s *Tencent) describe(body []byte) (map[string]any, error) {
	q := describeRequest{Limit: 20}
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	if q.Limit < 1 || q.Limit > 100 || len(q.InstanceIds) > 100 || len(q.InstanceIds) > 0 && len(q.Filters) > 0 {
		return nil, refusal{"InvalidParameterValue.Limit", "too many, or both"}
	}
	tags, ids, err := q.wanted()
	if err != nil {
		return nil, err
	}
	machines, err := s.Cloud.List(tags, ids)
	if err != nil {
		return nil, err
	}
	if len(machines) < len(q.InstanceIds) {
		return nil, refusal{"InvalidInstanceId.NotFound", "not all are there"}
	}
	set := []map[string]any{}
	for _, m := range machines[min(q.Offset, len(machines)):min(q.Offset+q.Limit, len(machines))] {
		set = append(set, s.instance(m))
	}
	return map[string]any{"TotalCount": len(machines), "InstanceSet": set}, nil
}

// instance is a machine as the API shows it: without a notice, of which only the machine itself is told.
func (s *Tencent) instance(m Machine) map[string]any {
	state := "RUNNING"
	switch {
	case m.Asked:
		state = "TERMINATING"
	case m.Ready.After(s.Cloud.Now()):
		state = "PENDING"
	}
	var private, public []string
	if m.IP != "" {
		private = []string{m.IP}
	}
	if m.PublicIP != "" {
		public = []string{m.PublicIP}
	}
	tags := []tencentTag{}
	for key, value := range m.Tags {
		tags = append(tags, tencentTag{key, value})
	}
	return map[string]any{
		"InstanceId": m.ID, "InstanceState": state, "InstanceType": m.Type, "Placement": map[string]string{"Zone": m.Zone},
		"PrivateIpAddresses": private, "PublicIpAddresses": public, "Tags": tags,
	}
}

func (s *Tencent) terminate(body []byte) (map[string]any, error) {
	var q struct {
		InstanceIds []string //nolint:revive // as the API has it
	}
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	now := s.Cloud.Now()
	there := map[string]bool{}
	for _, m := range s.Cloud.Machines() {
		there[m.ID] = m.Alive(now)
	}
	for _, id := range q.InstanceIds {
		if !there[id] {
			return nil, refusal{"InvalidInstanceId.NotFound", "not all are there"}
		}
	}
	return map[string]any{}, s.Cloud.Terminate(q.InstanceIds)
}

// decode reads the body of a request, which may have no other fields.
func decode(body []byte, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return refusal{"UnknownParameter", err.Error()}
	}
	return nil
}
