// Set, get, watch and lock, with Eclipse Paho and no library of ours: `first_steps 127.0.0.1:1883`.
//
//     g++ -std=c++17 -Wall -Wextra -Werror first_steps.cpp -o first_steps -lpaho-mqttpp3 -lpaho-mqtt3as
//
// A request is a PUBLISH to one topic, its reply comes to the Response Topic that it names. docs/state-store.md has all of it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <mqtt/async_client.h>

using std::string;
using std::chrono::milliseconds;

const string STORE = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";
const string NOTIFICATIONS = "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/";
const auto PATIENCE = milliseconds(10'000);
const int AT_LEAST_ONCE = 1;

/// A RESP array of bulk strings.
string resp(const std::vector<string>& words) {
    string bytes = "*" + std::to_string(words.size()) + "\r\n";
    for (const auto& word : words) bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    return bytes;
}

/// Client ids and keys as they are in topics.
string hex(const string& bytes) {
    string digits;
    char pair[3];
    for (unsigned char byte : bytes) {
        std::snprintf(pair, sizeof pair, "%02X", byte);
        digits += pair;
    }
    return digits;
}

/// The value of a user property; empty if there is none.
string user_property(const mqtt::const_message_ptr& message, const string& name) {
    const auto& properties = message->get_properties();
    for (size_t at = 0; at < properties.count(mqtt::property::USER_PROPERTY); ++at) {
        const auto [key, value] = mqtt::get<mqtt::string_pair>(properties, mqtt::property::USER_PROPERTY, at);
        if (key == name) return value;
    }
    return "";
}

struct Reply {
    string payload;
    /// The version of the key; of a lock that was taken, its fencing token.
    string version;
};

/// The state store, over an MQTT connection of its own.
class Store {
  public:
    Store(const string& address, const string& id)
        : id(id), replies("clients/" + id + "/replies"), client("tcp://" + address, id, mqtt::create_options(MQTTVERSION_5)) {
        client.start_consuming();
        client.connect(mqtt::connect_options_builder().mqtt_version(MQTTVERSION_5).clean_start(true).finalize())->wait();
        client.subscribe(replies, AT_LEAST_ONCE)->wait();
        client.subscribe(NOTIFICATIONS + hex(id) + "/command/notify/#", AT_LEAST_ONCE)->wait();
    }

    ~Store() {
        try {
            client.disconnect()->wait();
        } catch (const mqtt::exception& error) {
            std::cerr << "first_steps: " << error.what() << "\n";
        }
    }

    /// Sends a request and waits for its reply. `token`: what the writer of a key that is protected has to show.
    Reply ask(const std::vector<string>& words, const string& token = "") {
        const string correlation = std::to_string(++requests);
        mqtt::properties properties;
        properties.add({mqtt::property::RESPONSE_TOPIC, replies});
        properties.add({mqtt::property::CORRELATION_DATA, correlation});
        properties.add({mqtt::property::USER_PROPERTY, "__ts", now()});
        if (!token.empty()) properties.add({mqtt::property::USER_PROPERTY, "__ft", token});
        client.publish(mqtt::message::create(STORE, resp(words), AT_LEAST_ONCE, false, properties))->wait();
        while (true) {
            const auto message = next();
            if (message->get_topic() != replies) {
                changes.push_back(message);
                continue;
            }
            const auto& answered = message->get_properties();
            if (mqtt::get<string>(answered, mqtt::property::CORRELATION_DATA) != correlation) continue;
            const string payload = message->get_payload_str();
            if (payload.rfind("-ERR", 0) == 0) throw std::runtime_error(words[0] + ": " + payload);
            return {payload, user_property(message, "__ts")};
        }
    }

    /// The next change of a key that is watched, as RESP: `NOTIFY SET VALUE ...` or `NOTIFY DELETE`.
    string change() {
        if (changes.empty()) return next()->get_payload_str();
        const string payload = changes.front()->get_payload_str();
        changes.pop_front();
        return payload;
    }

  private:
    mqtt::const_message_ptr next() {
        mqtt::const_message_ptr message;
        if (!client.try_consume_message_for(&message, PATIENCE) || !message) throw std::runtime_error("the server does not answer");
        return message;
    }

    /// A timestamp of a hybrid logical clock: milliseconds, a counter, who has made it.
    string now() const {
        const auto time = std::chrono::system_clock::now().time_since_epoch();
        return std::to_string(std::chrono::duration_cast<milliseconds>(time).count()) + ":0:" + id;
    }

    const string id, replies;
    mqtt::async_client client;
    unsigned requests = 0;
    std::deque<mqtt::const_message_ptr> changes;
};

void expect(const string& what, const string& got, const string& wanted) {
    if (got != wanted) throw std::runtime_error(what + ": " + got);
}

/// What a bulk string says.
string bulk(const string& bytes) { return "$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n"; }

void run(const string& address) {
    const string id = "cpp-" + std::to_string(std::random_device{}());
    Store store(address, id);

    expect("set", store.ask({"SET", "example/door", "open"}).payload, "+OK\r\n");
    expect("get", store.ask({"GET", "example/door"}).payload, bulk("open"));

    expect("watch", store.ask({"KEYNOTIFY", "example/door"}).payload, "+OK\r\n");
    store.ask({"SET", "example/door", "shut"});
    const string change = store.change();
    if (change.find(bulk("SET")) == string::npos || change.find(bulk("shut")) == string::npos) throw std::runtime_error("change: " + change);
    std::cout << "the door is now shut\n";

    // A lock: whoever sets the key first has it, until it says so again or 10 seconds are over.
    const auto lock = store.ask({"SET", "example/lock", id, "NEX", "PX", "10000"});
    expect("lock", lock.payload, "+OK\r\n");
    // What is written while the lock is held carries its token: a holder who comes too late is refused.
    expect("fenced", store.ask({"SET", "example/pump", "7"}, lock.version).payload, "+OK\r\n");
    bool is_refused = false;
    try {
        store.ask({"SET", "example/pump", "8"});
    } catch (const std::runtime_error&) {
        is_refused = true;
    }
    if (!is_refused) throw std::runtime_error("a write without a token was not refused");
    store.ask({"DEL", "example/pump"}, lock.version);
    expect("release", store.ask({"VDEL", "example/lock", id}).payload, ":1\r\n");
    store.ask({"DEL", "example/door"});
    std::cout << "the pump was set under the lock, with the token " << lock.version << "\n";
}

int main(int count, char** words) {
    try {
        run(count > 1 ? words[1] : "127.0.0.1:1883");
    } catch (const std::exception& error) {
        std::cerr << "first_steps: " << error.what() << "\n";
        return EXIT_FAILURE;
    }
}
