package settings

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// files are a certificate, its key, and secrets, in a directory.
func files(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"cert":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		"key":   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		"word":  []byte("geheim\n"),
		"empty": []byte("\n"),
		"lines": []byte("geheim\nnoch eins\n"),
		"large": make([]byte, maxFile+1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// in puts the directory in place of @.
func in(dir string, kv ...string) Env {
	for i := range kv {
		kv[i] = strings.ReplaceAll(kv[i], "@", dir)
	}
	return env(kv...)
}

func TestSecurity(t *testing.T) {
	dir := files(t)
	s, err := Load(in(dir, "TRAWL_KAFKA_TLS_CA_FILE=@/cert", "TRAWL_KAFKA_TLS_CERT_FILE=@/cert", "TRAWL_KAFKA_TLS_KEY_FILE=@/key",
		"TRAWL_KAFKA_SASL=scram-sha-512", "TRAWL_KAFKA_USERNAME=ich", "TRAWL_KAFKA_PASSWORD_FILE=@/word",
		"TRAWL_ELASTIC_URL=https://es:9200", "TRAWL_ELASTIC_TLS_CA_FILE=@/cert", "TRAWL_ELASTIC_USERNAME=du", "TRAWL_ELASTIC_PASSWORD=geheim").Get)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.KafkaTLS.Config(); c == nil || c.RootCAs == nil || len(c.Certificates) != 1 {
		t.Errorf("TLS of Kafka: %+v", c)
	}
	if c := s.ElasticTLS.Config(); c == nil || c.RootCAs == nil {
		t.Errorf("TLS of Elasticsearch: %+v", c)
	}
	if s.KafkaSASL != SASLScram512 || s.KafkaUsername != "ich" || s.KafkaPassword.Reveal() != "geheim" || s.ElasticUsername != "du" || s.ElasticPassword.Reveal() != "geheim" {
		t.Errorf("%+v", s)
	}
	j, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{fmt.Sprintf("%v %+v %#v", s, s, s), string(j)} {
		if strings.Contains(out, "geheim") || strings.Contains(out, "PrivateKey") {
			t.Errorf("printed: %s", out)
		}
	}

	s, err = Load(in(dir, "TRAWL_KAFKA_TLS=true", "TRAWL_ELASTIC_API_KEY_FILE=@/word").Get)
	if err != nil || s.KafkaTLS.Config() == nil || s.KafkaTLS.Config().RootCAs != nil || s.ElasticAPIKey.Reveal() != "geheim" || s.ElasticTLS.Config() != nil {
		t.Errorf("%+v %v", s, err)
	}
	if s, err = Load(env().Get); err != nil || s.KafkaTLS.Config() != nil || s.KafkaSASL != SASLNone {
		t.Errorf("%+v %v", s, err)
	}
}

func TestSecurityRefuses(t *testing.T) {
	dir := files(t)
	for _, tt := range []struct{ kv, want string }{
		{"TRAWL_KAFKA_TLS=ja", `TRAWL_KAFKA_TLS="ja": is neither true nor false`},
		{"TRAWL_KAFKA_TLS_CA_FILE=@/none", "cannot be read: no such file"},
		{"TRAWL_KAFKA_TLS_CA_FILE=@", "cannot be read: is a directory"},
		{"TRAWL_KAFKA_TLS_CA_FILE=@/word", "holds no certificate"},
		{"TRAWL_KAFKA_TLS_CA_FILE=@/large", "more than"},
		{"TRAWL_KAFKA_TLS_CERT_FILE=@/cert", "a certificate needs its key"},
		{"TRAWL_KAFKA_TLS_CERT_FILE=@/cert TRAWL_KAFKA_TLS_KEY_FILE=@/cert", "no certificate and key that fit"},
		{"TRAWL_KAFKA_SASL=kerberos", "choose none, plain"},
		{"TRAWL_KAFKA_SASL=plain TRAWL_KAFKA_USERNAME=ich", "it needs TRAWL_KAFKA_USERNAME, and TRAWL_KAFKA_PASSWORD"},
		{"TRAWL_KAFKA_USERNAME=ich", "choose how to log in by TRAWL_KAFKA_SASL"},
		{"TRAWL_KAFKA_SASL=plain TRAWL_KAFKA_USERNAME=ich TRAWL_KAFKA_PASSWORD=geheim TRAWL_KAFKA_PASSWORD_FILE=@/word", "unset one of the two"},
		{"TRAWL_ELASTIC_PASSWORD_FILE=@/empty", "holds no secret"},
		{"TRAWL_ELASTIC_PASSWORD_FILE=@/lines", "has to be one line"},
		{"TRAWL_ELASTIC_PASSWORD=geheim", "set both a user and"},
		{"TRAWL_ELASTIC_USERNAME=u TRAWL_ELASTIC_PASSWORD=geheim TRAWL_ELASTIC_API_KEY=geheim", "unset one of the two"},
		{"TRAWL_ELASTIC_TLS_CA_FILE=@/cert TRAWL_ELASTIC_URL=http://es:9200", "write https://"},
	} {
		_, err := Load(in(dir, strings.Fields(tt.kv)...).Get)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v, want %q", tt.kv, err, tt.want)
		}
	}
}
